//! A certificate authority of this run, and the server's certificate from it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

/// The roots of the machine. A contestant gets them together with the root of this run: a function in Lambda reads such a file too.
const ROOTS: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

pub struct Tls {
    server: Arc<ServerConfig>,
    roots: PathBuf,
}

impl Tls {
    pub fn new() -> anyhow::Result<Self> {
        let mut authority = CertificateParams::default();
        authority.distinguished_name = name("benchmarks authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority_key = KeyPair::generate()?;
        let authority_certificate = authority.self_signed(&authority_key)?;
        let issuer = Issuer::new(authority, authority_key);
        let key = KeyPair::generate()?;
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let mut certificate = CertificateParams::new(names)?;
        certificate.distinguished_name = name("benchmarks");
        // OpenSSL asks for it.
        certificate.use_authority_key_identifier_extension = true;
        let certificate = certificate.signed_by(&key, &issuer)?;

        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            )?;

        let mut bundle = ROOTS
            .iter()
            .find_map(|file| std::fs::read_to_string(file).ok())
            .unwrap_or_default();
        bundle.push('\n');
        bundle.push_str(&authority_certificate.pem());
        let roots = std::env::temp_dir().join(format!("benches-roots-{}.pem", std::process::id()));
        std::fs::write(&roots, bundle)?;
        Ok(Self {
            server: Arc::new(server),
            roots,
        })
    }

    pub fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.server)
    }

    /// Returns the variables with which the clients of each language trust the server.
    pub fn environment(&self) -> Vec<(String, String)> {
        let roots = |path: &Path| path.to_string_lossy().into_owned();
        ["SSL_CERT_FILE", "AWS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"]
            .map(|name| (name.to_owned(), roots(&self.roots)))
            .to_vec()
    }
}

fn name(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

impl Drop for Tls {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.roots);
    }
}
