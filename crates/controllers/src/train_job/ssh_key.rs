//! The key pair by which the launcher of an MPI job reaches its nodes: ECDSA on P-256, made once per job.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData};

const ALGORITHM: &str = "ecdsa-sha2-nistp256";

/// A private key in PEM (PKCS #8, which OpenSSH reads) and the public key as `authorized_keys` has it.
#[derive(Debug)]
pub(crate) struct SshKey {
    pub(crate) private: String,
    pub(crate) public: String,
}

pub(crate) fn generate() -> Result<SshKey, rcgen::Error> {
    let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    // RFC 5656: the algorithm, the curve and the point, each with its length before it.
    let mut blob = Vec::new();
    for part in [ALGORITHM.as_bytes(), b"nistp256", pair.der_bytes()] {
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
        blob.extend(length.to_be_bytes());
        blob.extend(part);
    }
    Ok(SshKey {
        private: pair.serialize_pem(),
        public: format!("{ALGORITHM} {}\n", STANDARD.encode(blob)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_form_that_openssh_reads() {
        let key = generate().expect("a key");
        assert!(key.private.starts_with("-----BEGIN PRIVATE KEY-----"));
        let encoded = key
            .public
            .strip_prefix("ecdsa-sha2-nistp256 ")
            .expect("the algorithm")
            .trim_end();
        let blob = STANDARD.decode(encoded).expect("base64");
        // 4 + 19 for the algorithm, 4 + 8 for the curve, 4 + 65 for an uncompressed point.
        assert_eq!(blob.len(), 104);
        assert_eq!(blob[39], 0x04);
    }

    #[test]
    fn every_job_has_its_own() {
        assert_ne!(
            generate().expect("a key").public,
            generate().expect("a key").public
        );
    }
}
