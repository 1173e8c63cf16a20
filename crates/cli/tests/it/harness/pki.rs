//! The certificates of a control plane: one authority for servers and clients, and a key for the
//! tokens of service accounts.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

pub(crate) struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes the authority, with its certificate in `folder/ca.crt`, and the key pair `folder/sa.key`, `folder/sa.pub`.
    pub(crate) fn new(folder: &Path) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = name("test-ca", &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        write(&folder.join("ca.crt"), &certificate.pem());
        let tokens = KeyPair::generate().unwrap();
        write(&folder.join("sa.key"), &tokens.serialize_pem());
        write(&folder.join("sa.pub"), &tokens.public_key_pem());
        Self {
            folder: folder.to_owned(),
            issuer: Issuer::new(params, key),
        }
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// A serving certificate in `folder/file.crt` and `folder/file.key`.
    pub(crate) fn server(&self, folder: &Path, file: &str) {
        let names = ["localhost", "127.0.0.1", "kubernetes.default.svc"].map(str::to_owned);
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = name("server", &[]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params, folder, file);
    }

    /// A certificate for a user in `folder/file.crt` and `folder/file.key`.
    pub(crate) fn client(&self, file: &str, user: &str, groups: &[&str]) {
        let mut params = CertificateParams::default();
        params.distinguished_name = name(user, groups);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params, &self.folder, file);
    }

    #[expect(clippy::needless_pass_by_value, reason = "made for this call")]
    fn sign(&self, params: CertificateParams, folder: &Path, file: &str) {
        std::fs::create_dir_all(folder).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        write(&folder.join(format!("{file}.crt")), &certificate.pem());
        write(&folder.join(format!("{file}.key")), &key.serialize_pem());
    }
}

fn name(common: &str, organizations: &[&str]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    for organization in organizations {
        name.push(DnType::OrganizationName, *organization);
    }
    name
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}
