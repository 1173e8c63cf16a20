//! The user that a client certificate names: common name and organizations.

use rustls_pki_types::CertificateDer;

use super::identity::Identity;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

/// The identity of a certificate that TLS has already verified.
pub(crate) fn identity(certificate: &CertificateDer<'_>) -> Option<Identity> {
    let mut user = None;
    let mut groups = Vec::new();
    for (kind, value) in subject(certificate)? {
        match kind {
            COMMON_NAME => user = Some(value),
            ORGANIZATION => groups.push(value),
            _ => {}
        }
    }
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    Some(Identity::user(
        &user.filter(|user| !user.is_empty())?,
        &groups,
    ))
}

/// The attributes of the subject, in order.
///
/// Certificate ::= { { [0] version?, serial, algorithm, issuer, validity, subject, … }, … }
fn subject<'a>(certificate: &'a CertificateDer<'_>) -> Option<Vec<(&'a [u8], String)>> {
    const SEQUENCE: u8 = 0x30;
    const VERSION: u8 = 0xa0;
    let (_, outer, _) = element(certificate)?;
    let (_, mut body, _) = element(outer)?;
    if body.first() == Some(&VERSION) {
        body = element(body)?.2;
    }
    for _ in 0..4 {
        body = element(body)?.2;
    }
    let (tag, mut names, _) = element(body)?;
    let mut found = Vec::new();
    while tag == SEQUENCE && !names.is_empty() {
        let (_, set, rest) = element(names)?;
        names = rest;
        let (_, pair, _) = element(set)?;
        let (_, kind, value) = element(pair)?;
        let (_, text, _) = element(value)?;
        found.push((kind, String::from_utf8(text.to_vec()).ok()?));
    }
    Some(found)
}

/// Splits the first DER element off: its tag, its content, and what follows.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let count = usize::from(first & 0x7f);
        let digits = rest.get(..count).filter(|_| count <= 4)?;
        let length = digits
            .iter()
            .fold(0, |length, digit| length << 8 | usize::from(*digit));
        (length, &rest[count..])
    };
    Some((tag, rest.get(..length)?, &rest[length..]))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    #[test]
    fn the_subject_is_the_user_and_their_groups() {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::OrganizationName, "system:masters");
        params.distinguished_name.push(DnType::CommonName, "ann");
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let identity = identity(certificate.der()).unwrap();
        assert_eq!(&*identity.user, "ann");
        assert!(identity.is_in("system:masters"));
    }

    #[test]
    fn garbage_names_nobody() {
        for bytes in [
            &b""[..],
            &[0x30],
            &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff],
            &[0x30, 2, 0x30, 0],
        ] {
            assert!(identity(&CertificateDer::from(bytes)).is_none());
        }
    }
}
