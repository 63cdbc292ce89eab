//! The documents of a server: made when somebody first asks, off the threads that serve requests, and kept compressed for
//! as long as what they describe is served.
//!
//! Most servers are never asked. Clients that ask, ask for much of it, and almost all take it compressed, which is a tenth
//! of the text. A change of what is served costs nothing here: it leaves documents behind that are found to be stale when
//! they are next asked for, and only those are made again.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write};
use std::sync::{Arc, Weak};

use bytes::{Buf as _, Bytes};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use super::components::Known;
use super::custom::Definitions;
use super::swagger::{self, Encoding};
use super::{Kind, Resource, Subresource, components, hash, operations, root_path};
use crate::failure::{Failure, Result};
use crate::registry::{self, Registry};
use crate::schema::definitions_as_json;
use crate::server::Shared;

/// How much of a text is unpacked at a time.
const PIECE: usize = 64 * 1024;

#[derive(Debug, Default)]
pub struct Documents {
    /// Those of OpenAPI 3, by the path below `/openapi/v3/`.
    by_version: Mutex<BTreeMap<String, Kept>>,
    /// That of OpenAPI 2.
    whole: Mutex<Whole>,
}

/// A text and its name.
#[derive(Debug)]
pub(super) struct Document {
    pub hash: String,
    /// Of the text.
    pub length: usize,
    pub compressed: Bytes,
}

/// A text that is being written, of which only the compressed form is held.
struct Packing {
    digest: Sha256,
    length: usize,
    encoder: GzEncoder<Vec<u8>>,
}

#[derive(Debug)]
struct Kept {
    /// What it describes. A resource that changes is another one.
    describes: Vec<Weak<registry::Resource>>,
    document: Arc<Document>,
}

#[derive(Debug, Default)]
struct Whole {
    describes: Weak<Registry>,
    by_encoding: BTreeMap<Encoding, Arc<Document>>,
}

impl Documents {
    /// The hashes of all documents of OpenAPI 3, by path.
    pub(super) async fn hashes(&self, server: &Arc<Shared>) -> Result<BTreeMap<String, String>> {
        let registry = server.registry();
        let mut kept = self.by_version.lock().await;
        let served: BTreeMap<String, (&str, &str)> =
            versions(&registry).map(|(group, version)| (path_of(group, version), (group, version))).collect();
        kept.retain(|path, _| served.contains_key(path));
        let stale = served.into_values().filter(|(group, version)| !is_current(&kept, &registry, group, version));
        let stale: Vec<(String, String)> = stale.map(|(group, version)| (group.into(), version.into())).collect();
        make(server, &registry, &mut kept, stale).await?;
        Ok(kept.iter().map(|(path, kept)| (path.clone(), kept.document.hash.clone())).collect())
    }

    /// The document of OpenAPI 3 at a path, if there is one.
    pub(super) async fn version(&self, server: &Arc<Shared>, path: &str) -> Result<Option<Arc<Document>>> {
        let registry = server.registry();
        let Some((group, version)) = versions(&registry).find(|(group, version)| path_of(group, version) == path)
        else {
            return Ok(None);
        };
        let mut kept = self.by_version.lock().await;
        if !is_current(&kept, &registry, group, version) {
            make(server, &registry, &mut kept, vec![(group.into(), version.into())]).await?;
        }
        Ok(kept.get(path).map(|kept| kept.document.clone()))
    }

    /// The document of OpenAPI 2.
    pub(super) async fn whole(&self, server: &Arc<Shared>, encoding: Encoding) -> Result<Arc<Document>> {
        let registry = server.registry();
        let mut whole = self.whole.lock().await;
        let current = Arc::downgrade(&registry);
        if !whole.describes.ptr_eq(&current) {
            *whole = Whole { describes: current, by_encoding: BTreeMap::new() };
        }
        if let Some(document) = whole.by_encoding.get(&encoding) {
            return Ok(document.clone());
        }
        let sources = Sources { definitions: Definitions::read(server).await?, registry };
        let make = move || {
            let built_in = definitions_as_json();
            let versions = || versions(&sources.registry);
            let paths = versions().map(|(group, version)| sources.paths(group, version));
            let schemas = versions().map(|(group, version)| sources.schemas(&built_in, group, version));
            Document::write(|out| swagger::write(out, encoding, paths, schemas))
        };
        let document = Arc::new(tokio::task::spawn_blocking(make).await.map_err(Failure::internal)?);
        whole.by_encoding.insert(encoding, document.clone());
        Ok(document)
    }
}

impl Document {
    fn write(write: impl FnOnce(&mut Packing) -> io::Result<()>) -> Document {
        let encoder = GzEncoder::new(Vec::new(), Compression::default());
        let mut packing = Packing { digest: Sha256::new(), length: 0, encoder };
        write(&mut packing).expect("writing to memory cannot fail");
        let compressed = packing.encoder.finish().expect("writing to memory cannot fail");
        Document { hash: hash(packing.digest), length: packing.length, compressed: compressed.into() }
    }

    /// The text, piece by piece.
    pub(super) fn text(&self) -> impl Iterator<Item = Bytes> + Send + use<> {
        let mut decoder = GzDecoder::new(self.compressed.clone().reader());
        std::iter::from_fn(move || {
            let mut piece = Vec::with_capacity(PIECE);
            decoder.by_ref().take(PIECE as u64).read_to_end(&mut piece).expect("it was compressed here");
            (!piece.is_empty()).then(|| piece.into())
        })
    }
}

impl Write for Packing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.encoder.write_all(bytes)?;
        self.digest.update(bytes);
        self.length += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn versions(registry: &Registry) -> impl Iterator<Item = (&str, &str)> {
    registry.groups().flat_map(|(group, versions)| versions.map(move |version| (group, version)))
}

fn path_of(group: &str, version: &str) -> String {
    root_path(group, version)[1..].to_owned()
}

fn is_current(kept: &BTreeMap<String, Kept>, registry: &Registry, group: &str, version: &str) -> bool {
    let Some(kept) = kept.get(&path_of(group, version)) else { return false };
    let served = describe(registry, group, version);
    served.len() == kept.describes.len() && served.iter().zip(&kept.describes).all(|(a, b)| a.ptr_eq(b))
}

fn describe(registry: &Registry, group: &str, version: &str) -> Vec<Weak<registry::Resource>> {
    registry.version(group, version).into_iter().flatten().map(Arc::downgrade).collect()
}

/// Makes the documents of these groups and versions.
async fn make(
    server: &Arc<Shared>,
    registry: &Arc<Registry>,
    kept: &mut BTreeMap<String, Kept>,
    stale: Vec<(String, String)>,
) -> Result<()> {
    if stale.is_empty() {
        return Ok(());
    }
    let sources = Sources { definitions: Definitions::read(server).await?, registry: registry.clone() };
    let make = move || -> Vec<(String, Kept)> {
        let built_in = definitions_as_json();
        let make = |(group, version): (String, String)| {
            let text = sources.document(&built_in, &group, &version).to_string();
            let document = Document::write(|out| out.write_all(text.as_bytes()));
            let describes = describe(&sources.registry, &group, &version);
            (path_of(&group, &version), Kept { describes, document: Arc::new(document) })
        };
        stale.into_iter().map(make).collect()
    };
    kept.extend(tokio::task::spawn_blocking(make).await.map_err(Failure::internal)?);
    Ok(())
}

/// What documents are made of.
struct Sources {
    registry: Arc<Registry>,
    definitions: Definitions,
}

impl Sources {
    /// The document of OpenAPI 3 of a group and version.
    fn document(&self, built_in: &Map<String, Value>, group: &str, version: &str) -> Value {
        let custom = self.definitions.schemas(group, version);
        self.describe(group, version, |resources| super::document(&Known { built_in, custom: &custom }, resources))
    }

    /// Its schemas alone.
    fn schemas(&self, built_in: &Map<String, Value>, group: &str, version: &str) -> Map<String, Value> {
        let custom = self.definitions.schemas(group, version);
        self.describe(group, version, |resources| components::schemas(&Known { built_in, custom: &custom }, resources))
    }

    /// Its paths alone.
    fn paths(&self, group: &str, version: &str) -> Map<String, Value> {
        self.describe(group, version, operations::paths)
    }

    fn describe<T>(&self, group: &str, version: &str, describe: impl FnOnce(&[Resource<'_>]) -> T) -> T {
        let served: Vec<&registry::Resource> =
            self.registry.version(group, version).into_iter().flatten().map(AsRef::as_ref).collect();
        let subresources: Vec<Vec<Subresource<'_>>> = served.iter().map(|resource| subresources(resource)).collect();
        let resources: Vec<Resource<'_>> = served
            .iter()
            .zip(&subresources)
            .map(|(resource, subresources)| Resource {
                kind: kind_of(resource),
                list_kind: &resource.list_kind,
                plural: &resource.plural,
                namespaced: resource.namespaced,
                verbs: resource.verbs(),
                subresources,
            })
            .collect();
        describe(&resources)
    }
}

fn kind_of(resource: &registry::Resource) -> Kind<'_> {
    let registry::Resource { group, version, kind, custom, .. } = resource;
    Kind { group, version, name: kind, custom: custom.is_some() }
}

fn subresources(resource: &registry::Resource) -> Vec<Subresource<'_>> {
    let describe = |part: &registry::Subresource| {
        let (group, version, name) = part.kind(resource);
        let whole = kind_of(resource);
        let custom = whole.custom && (group, version, name) == (whole.group, whole.version, whole.name);
        Subresource { name: part.name(), kind: Kind { group, version, name, custom }, verbs: part.verbs() }
    };
    resource.subresources.iter().map(describe).collect()
}
