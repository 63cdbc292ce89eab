//! The functions of Kubernetes' libraries.

use serde_json::json;

use super::Expect::{Fails, False, Refused, True};
use super::{check_rows, empty_schema};

#[test]
fn strings() {
    check_rows(
        &empty_schema(),
        &json!({}),
        &[
            ("'hello'.startsWith('he') && 'hello'.endsWith('lo') && 'hello'.contains('ell')", True),
            ("'hello'.startsWith('lo')", False),
            ("'hello'.charAt(1) == 'e' && 'hello'.charAt(5) == ''", True),
            ("'hello'.charAt(6) == ''", Fails("index out of range: 6")),
            ("'hello'.charAt(-1) == ''", Fails("index out of range: -1")),
            ("'hello'.indexOf('l') == 2 && 'hello'.indexOf('l', 3) == 3 && 'hello'.indexOf('x') == -1", True),
            ("'hello'.indexOf('') == 0 && 'hello'.indexOf('', 9) == 5", True),
            ("'hello'.indexOf('l', -1) == 2", Fails("index out of range: -1")),
            (
                "'hello'.lastIndexOf('l') == 3 && 'hello'.lastIndexOf('l', 2) == 2 && 'hello'.lastIndexOf('x') == -1",
                True,
            ),
            ("'hello'.lastIndexOf('') == 5 && 'hello'.lastIndexOf('hello') == 0", True),
            ("'hello'.lastIndexOf('lo', 2) == -1 && 'hello'.lastIndexOf('lo', 3) == 3", True),
            ("'üöü'.indexOf('ö') == 1 && 'üöü'.lastIndexOf('ü') == 2 && 'üöü'.charAt(1) == 'ö'", True),
            (
                "'éaé'.lastIndexOf('é', 1) == 0 && 'éaé'.lastIndexOf('é', 2) == 2 && 'éaé'.lastIndexOf('é', 0) == 0",
                True,
            ),
            (
                "'éaé'.lastIndexOf('aé', 1) == 1 && 'éaé'.lastIndexOf('aé', 0) == -1 && 'a€a'.lastIndexOf('a', 1) == 0",
                True,
            ),
            (
                "'aé€'.lastIndexOf('€', 2) == 2 && 'aé€'.lastIndexOf('€', 1) == -1 && 'aé€'.lastIndexOf('a', 3) == -1",
                True,
            ),
            ("'éaé'.indexOf('é', 1) == 2 && 'éaé'.indexOf('é', 3) == -1 && 'é€'.indexOf('', 5) == 2", True),
            ("'é€a'.substring(1, 2) == '€' && 'é€a'.substring(2) == 'a' && 'é€a'.substring(3) == ''", True),
            ("'é€a'.charAt(2) == 'a' && 'é€a'.charAt(3) == ''", True),
            ("'é€a'.charAt(4) == ''", Fails("index out of range: 4")),
            ("'éaé'.replace('é', '€', 1) == '€aé' && 'éa'.replace('', '-', 2) == '-é-a'", True),
            (
                "'é€'.split('') == ['é', '€'] && 'éa€a'.split('a', 2) == ['é', '€a'] && 'é€a'.split('', 2) == ['é', '€a']",
                True,
            ),
            ("'HeLLo Ü'.lowerAscii() == 'hello Ü' && 'hello ü'.upperAscii() == 'HELLO ü'", True),
            ("'aba'.replace('a', 'x') == 'xbx' && 'aba'.replace('a', 'x', 1) == 'xba'", True),
            ("'aba'.replace('a', 'x', 0) == 'aba' && 'ab'.replace('', '-') == '-a-b-'", True),
            ("'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c']", True),
            ("'a,b'.split(',', 0) == [] && 'ab'.split('') == ['a', 'b'] && ''.split(',') == ['']", True),
            ("'hello'.substring(1) == 'ello' && 'hello'.substring(1, 3) == 'el' && 'hello'.substring(5) == ''", True),
            ("'hello'.substring(6) == ''", Fails("index out of range: 6")),
            ("'hello'.substring(3, 2) == ''", Fails("invalid substring range. start: 3, end: 2")),
            ("'  a b '.trim() == 'a b'", True),
            ("['a', 'b'].join() == 'ab' && ['a', 'b'].join('-') == 'a-b' && [].join(',') == ''", True),
            (r#"strings.quote('a"b') == '"a\\"b"'"#, True),
            ("'%s is %d'.format(['x', 5]) == 'x is 5'", True),
            (
                "'%.2f %e %b %x %X %o %%'.format([1.005, 1500.0, 5, 255, 'az', 8]) == '1.00 1.500000e+03 101 ff 617A 10 %'",
                True,
            ),
            ("'%s'.format([[1, 'a']]) == '[1, \"a\"]'", True),
            ("'%s'.format([{'b': 1, 'a': 2.5}]) == '{\"a\":2.500000, \"b\":1}'", True),
            ("'%s %s'.format([null, true]) == 'null true'", True),
            (
                "'%d'.format(['x']) == ''",
                Fails("error during formatting: decimal clause can only be used on integers, was given string"),
            ),
            ("'%s'.format([]) == ''", Refused("index 0 out of range")),
            ("'a'.format([1]) == ''", Refused("too many arguments supplied to string.format (expected 0, got 1)")),
            ("'%z'.format([1]) == ''", Refused("unrecognized formatting clause \"z\"")),
            ("'abc'.reverse() == 'cba'", Refused("found no matching overload for 'reverse' applied to 'string.()'")),
            ("'a'.nope()", Refused("undeclared reference to 'nope' (in container '')")),
            ("'a'.charAt('b') == ''", Refused("found no matching overload for 'charAt' applied to 'string.(string)'")),
            ("'a'.charAt() == ''", Refused("found no matching overload for 'charAt' applied to 'string.()'")),
            ("dyn(1).charAt(0) == ''", Fails("no such overload: charAt(int, int)")),
        ],
    );
}

#[test]
fn lists_and_sets() {
    check_rows(
        &empty_schema(),
        &json!({}),
        &[
            ("[1, 2, 2].isSorted() && !['b', 'a'].isSorted() && [].isSorted()", True),
            ("[1, 2, 3].sum() == 6 && [1.5, 1.5].sum() == 3.0 && [1u].sum() == 1u", True),
            ("[duration('1m'), duration('1s')].sum() == duration('61s')", True),
            ("[9223372036854775807, 1].sum() == 0", Fails("integer overflow")),
            ("[2, 1, 3].min() == 1 && [2, 1, 3].max() == 3 && ['b', 'a'].min() == 'a'", True),
            ("[1].filter(x, false).min() == 0", Fails("min called on empty list")),
            ("[1].filter(x, false).max() == 0", Fails("max called on empty list")),
            ("[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(2) == -1", True),
            ("[1, 2, 3, 4].slice(1, 3) == [2, 3] && [1].slice(0, 0) == []", True),
            ("[1].slice(0, 2) == []", Fails("cannot slice(0, 2), list is length 1")),
            ("[1].slice(-1, 0) == []", Fails("cannot slice(-1, 0), negative indexes not supported")),
            ("[1].slice(1, 0) == []", Fails("cannot slice(1, 0), start index must be less than or equal to end index")),
            ("[[1], [2, 3]].flatten() == [1, 2, 3]", True),
            ("dyn([[[1]], [[2]]]).flatten(2) == dyn([1, 2])", True),
            ("dyn([[1]]).flatten(-1) == dyn([])", Fails("level must be non-negative")),
            ("[3, 1, 2].sort() == [1, 2, 3] && ['b', 'a'].sort() == ['a', 'b']", True),
            ("dyn([1, 'a']).sort() == dyn([])", Refused("expected type 'int' but found 'string'")),
            ("[dyn(1), dyn('a')].sort() == [dyn(1)]", Fails("list elements must have the same type")),
            ("[1, 2, 3].reverse() == [3, 2, 1]", True),
            ("[1, 2, 1, 3].distinct() == [1, 2, 3]", True),
            ("lists.range(3) == [0, 1, 2] && lists.range(-1) == []", True),
            ("['a'].sum() == ''", Refused("found no matching overload for 'sum' applied to 'list(string).()'")),
            ("[[1]].min() == [1]", Refused("found no matching overload for 'min' applied to 'list(list(int)).()'")),
            ("sets.contains([1, 2, 3], [3, 1]) && !sets.contains([1], [2])", True),
            ("sets.contains([], []) && sets.equivalent([1, 1, 2], [2, 1])", True),
            ("sets.equivalent([1], [1, 2])", False),
            ("sets.intersects([1, 2], [2, 3]) && !sets.intersects([1], [2]) && !sets.intersects([], [1])", True),
            (
                "sets.contains([1], ['a'])",
                Refused("found no matching overload for 'sets.contains' applied to '(list(int), list(string))'"),
            ),
        ],
    );
}

#[test]
fn regular_expressions() {
    check_rows(
        &empty_schema(),
        &json!({}),
        &[
            (r"'abc123'.matches('^[a-z]+[0-9]+$') && matches('abc', 'b')", True),
            (r"'a1b22'.find('[0-9]+') == '1' && 'abc'.find('[0-9]+') == ''", True),
            (r"'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'a1b22'.findAll('[0-9]+', 1) == ['1']", True),
            (r"'a1b22'.findAll('[0-9]+', 0) == []", True),
            (r"'١'.matches(r'\d')", False),
            ("'a'.matches('(')", Refused("invalid matches argument")),
            ("'a'.matches('a{1001}')", Refused("invalid matches argument")),
            ("'a'.find('(') == ''", Refused("invalid find argument")),
            ("'a'.matches('(' + '')", Fails("error parsing regexp: invalid syntax: `(`")),
            ("['a', 'b'].all(p, 'ab'.matches(p))", True),
        ],
    );
}

#[test]
fn urls() {
    check_rows(
        &empty_schema(),
        &json!({}),
        &[
            ("isURL('https://example.com:80/a') && isURL('/absolute/path') && isURL('https://a b')", False),
            ("isURL('https://example.com:80/a') && isURL('/absolute/path') && isURL('mailto:x')", True),
            ("isURL('relative') || isURL('') || isURL(':foo') || isURL('https://a:port')", False),
            ("isURL('https://[::1]:80/') && !isURL('https://[::1/') && !isURL('https://a/%zz')", True),
            ("url('https://example.com:80/a?b=c').getScheme() == 'https'", True),
            ("url('HTTPS://example.com:80/a?b=c').getScheme() == 'https'", True),
            ("url('https://example.com:80/a').getHost() == 'example.com:80'", True),
            ("url('https://user:pass@example.com/a').getHost() == 'example.com'", True),
            ("url('https://example.com:80/a').getHostname() == 'example.com'", True),
            ("url('https://[::1]:80/a').getHostname() == '::1' && url('https://[::1]/').getPort() == ''", True),
            ("url('https://example.com:80/a').getPort() == '80' && url('/p').getPort() == ''", True),
            ("url('https://example.com/a b/%20c').getEscapedPath() == '/a%20b/%20c'", True),
            ("url('https://example.com/a#frag').getEscapedPath() == '/a'", True),
            ("url('https://e.com/?k=a&k=b&x=%20y+z').getQuery() == {'k': ['a', 'b'], 'x': [' y z']}", True),
            ("url('https://e.com/').getQuery().size() == 0", True),
            (
                "url('a') == url('b')",
                Fails("URL parse error during conversion from string: parse \"a\": invalid URI for request"),
            ),
            ("url('https://a/') == url('https://a/')", True),
        ],
    );
}

#[test]
fn addresses() {
    check_rows(
        &empty_schema(),
        &json!({}),
        &[
            ("isIP('127.0.0.1') && isIP('::1') && !isIP('127.0.0.1.1') && !isIP('') && !isIP('01.2.3.4')", True),
            ("isIP('::ffff:1.2.3.4') || isIP('fe80::1%eth0')", False),
            (
                "ip('::ffff:1.2.3.4') == ip('1.2.3.4')",
                Fails("IPv4-mapped IPv6 address \"::ffff:1.2.3.4\" is not allowed"),
            ),
            ("ip('fe80::1%eth0') == ip('::1')", Fails("IP address \"fe80::1%eth0\" with zone value is not allowed")),
            ("ip.isCanonical('2001:db8::1') && !ip.isCanonical('2001:DB8::1')", True),
            ("ip('127.0.0.1').family() == 4 && ip('::1').family() == 6", True),
            ("ip('0.0.0.0').isUnspecified() && ip('127.1.1.1').isLoopback() && ip('::1').isLoopback()", True),
            ("ip('224.0.0.1').isLinkLocalMulticast() && ip('169.254.1.1').isLinkLocalUnicast()", True),
            ("ip('ff02::1').isLinkLocalMulticast() && ip('fe80::1').isLinkLocalUnicast()", True),
            ("ip('8.8.8.8').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast()", True),
            ("string(ip('2001:DB8::1')) == '2001:db8::1'", True),
            ("ip('::1') == ip('0:0:0:0:0:0:0:1')", True),
            ("isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0/33') && !isCIDR('10.0.0.0') && !isCIDR('10.0.0.0/08')", True),
            (
                "cidr('192.168.0.0/24').containsIP('192.168.0.1') && !cidr('192.168.0.0/24').containsIP('192.168.1.1')",
                True,
            ),
            ("cidr('192.168.0.0/24').containsIP(ip('192.168.0.1')) && !cidr('10.0.0.0/8').containsIP('::1')", True),
            (
                "cidr('192.168.0.0/16').containsCIDR('192.168.10.0/24') && cidr('::/0').containsCIDR(cidr('::1/128'))",
                True,
            ),
            ("cidr('192.168.0.0/24').containsCIDR('192.168.0.0/16')", False),
            ("cidr('192.168.1.5/24').ip() == ip('192.168.1.5') && cidr('192.168.1.5/24').prefixLength() == 24", True),
            (
                "cidr('192.168.1.5/24').masked() == cidr('192.168.1.0/24') && cidr('1.2.3.4/0').masked() == cidr('0.0.0.0/0')",
                True,
            ),
            ("string(cidr('10.0.0.0/8')) == '10.0.0.0/8'", True),
            ("type(ip('::1')) == net.IP", True),
            (
                "cidr('x').prefixLength() == 0",
                Fails(
                    "network address parse error during conversion from string: network address parse error during conversion \
             from string: netip.ParsePrefix(\"x\"): no '/'",
                ),
            ),
        ],
    );
}

#[test]
fn quantities_and_versions() {
    check_rows(
        &empty_schema(),
        &json!({}),
        &[
            ("isQuantity('1.5Gi') && isQuantity('100m') && !isQuantity('x') && !isQuantity('')", True),
            ("quantity('1Ki') == quantity('1024') && quantity('1').compareTo(quantity('2')) == -1", True),
            ("quantity('2').isGreaterThan(quantity('1')) && quantity('1').isLessThan(quantity('2'))", True),
            ("quantity('1').compareTo(quantity('1')) == 0 && quantity('2').compareTo(quantity('1')) == 1", True),
            (
                "quantity('50k').add(quantity('20k')) == quantity('70k') && quantity('50k').sub(20000) == quantity('30k')",
                True,
            ),
            ("quantity('50k').add(20) == quantity('50020')", True),
            (
                "quantity('50k').asInteger() == 50000 && quantity('50k').isInteger() && !quantity('1500m').isInteger()",
                True,
            ),
            ("quantity('1500m').asInteger() == 1", Fails("cannot convert value to integer")),
            ("quantity('1500m').asApproximateFloat() == 1.5", True),
            ("sign(quantity('-1')) == -1 && sign(quantity('0')) == 0 && sign(quantity('1')) == 1", True),
            (
                "quantity('x') == quantity('1')",
                Fails("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
            ),
            (
                "isSemver('1.2.3') && isSemver('1.2.3-alpha.1+build') && !isSemver('1.2') && !isSemver('v1.2.3') && !isSemver('01.2.3')",
                True,
            ),
            ("isSemver('v1.2', true) && isSemver('01.02.3', true) && !isSemver('1.2-a', true)", True),
            ("semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3", True),
            ("semver('v1', true) == semver('1.0.0')", True),
            ("semver('1.10.0').isGreaterThan(semver('1.9.0')) && semver('1.0.0-a').isLessThan(semver('1.0.0'))", True),
            (
                "semver('1.0.0-2').isLessThan(semver('1.0.0-10')) && semver('1.0.0-2').isLessThan(semver('1.0.0-a'))",
                True,
            ),
            ("semver('1.0.0+a').compareTo(semver('1.0.0+b')) == 0", True),
            ("semver('1.2') == semver('1.2.0')", Fails("No Major.Minor.Patch elements found")),
            ("semver('a.2.3') == semver('1.2.0')", Fails("Invalid character(s) found in major number \"a\"")),
            ("quantity('1').isGreaterThan(semver('1.2.3'))", Refused("found no matching overload for 'isGreaterThan'")),
        ],
    );
}

#[test]
fn named_formats() {
    check_rows(
        &empty_schema(),
        &json!({}),
        &[
            ("!format.dns1123Label().validate('abc').hasValue()", True),
            ("format.dns1123Label().validate('A_').value().size() == 1", True),
            (
                "format.dns1123Subdomain().validate('a.b').hasValue() || format.dns1035Label().validate('1a').hasValue()",
                True,
            ),
            (
                "!format.dns1035Label().validate('a1').hasValue() && !format.qualifiedName().validate('a/b').hasValue()",
                True,
            ),
            (
                "!format.dns1123LabelPrefix().validate('abc-').hasValue() && format.dns1123Label().validate('abc-').hasValue()",
                True,
            ),
            ("!format.labelValue().validate('').hasValue() && format.labelValue().validate('-').hasValue()", True),
            ("!format.uri().validate('https://a/').hasValue() && format.uri().validate('a').hasValue()", True),
            ("!format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()", True),
            ("format.uuid().validate('123').value() == ['does not match the UUID format']", True),
            (
                "!format.byte().validate('aGk=').hasValue() && format.byte().validate('!').value() == ['invalid base64']",
                True,
            ),
            (
                "!format.date().validate('2020-01-01').hasValue() && format.date().validate('x').value() == ['invalid date']",
                True,
            ),
            (
                "!format.datetime().validate('2020-01-01T00:00:00Z').hasValue() && format.datetime().validate('x').hasValue()",
                True,
            ),
            ("format.named('dns1123Label').value() == format.dns1123Label() && !format.named('nope').hasValue()", True),
            ("format.nope().validate('')", Refused("undeclared reference to")),
            ("math.greatest(1, 2) == 2", Refused("undeclared reference to")),
            ("base64.encode(b'a') == ''", Refused("undeclared reference to")),
        ],
    );
}
