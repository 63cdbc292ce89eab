//! `${NAME}` in values, from Secrets and ConfigMaps only.
