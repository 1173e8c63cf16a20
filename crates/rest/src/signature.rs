//! The signature of notifications: HMAC-SHA256, as receivers of webhooks know it.

use ring::hmac;

/// The value of the header `X-Astrago-Signature`: over the time and the body, so that an old
/// notification cannot be sent again under a new time.
pub(crate) fn sign(secret: &str, timestamp: i64, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let mut context = hmac::Context::with_key(&key);
    context.update(timestamp.to_string().as_bytes());
    context.update(b".");
    context.update(body.as_bytes());
    format!("sha256={}", hex::encode(context.sign()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_the_one_that_openssl_computes() {
        // printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac 'it is a secret key'
        let want = "sha256=5b7f10a3118e8d6992e7b4340ee968f91a8459f2b304f9bb0c8108efe1332411";
        assert_eq!(sign("it is a secret key", 1_700_000_000, "{\"a\":1}"), want);
    }
}
