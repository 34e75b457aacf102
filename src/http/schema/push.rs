//! Schemas of the values of a push.

use schemars::{Schema, json_schema};

use super::types::duration;
use crate::job::{
    MAX_HEADERS, MAX_PUSH_LINGER, MAX_PUSH_TIMEOUT, MAX_PUSH_URL_BYTES, MIN_PUSH_TIMEOUT, Millis,
};

/// URL of a push.
pub struct Url;
/// Time for one request.
pub struct Timeout;
/// Time that the first job of a request waits for more jobs.
pub struct Linger;

/// Key of the signatures.
pub struct SecretText;
super::schemas! {
    Url => |_| json_schema!({
        "type": "string", "format": "push-url", "pattern": "^https?://[!-~]+$",
        "maxLength": MAX_PUSH_URL_BYTES,
    });
    Timeout => |_| duration(MIN_PUSH_TIMEOUT, MAX_PUSH_TIMEOUT);
    Linger => |_| duration(Millis::ZERO, MAX_PUSH_LINGER);
    SecretText => |_| json_schema!({ "type": "string", "pattern": secret() });
}

/// Returns the schema of the headers of a push: as those of a job, and values may be secret.
pub fn headers() -> Schema {
    let value = json_schema!({ "type": "string", "pattern": r"^[\t -~]*$" });
    let secret = json_schema!({
        "type": "object", "properties": { "secret": value }, "required": ["secret"],
        "additionalProperties": false,
    });
    json_schema!({
        "type": "object", "maxProperties": MAX_HEADERS,
        "propertyNames": { "pattern": r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" },
        "additionalProperties": { "anyOf": [value, secret] },
    })
}

/// Returns the pattern of a secret: the base64 of 24 to 64 bytes, whose unused bits are zero.
fn secret() -> String {
    let digit = "[A-Za-z0-9+/]";
    let (one, two) = (format!("{digit}[AQgw]=="), format!("{digit}{{2}}[AEIMQUYcgkosw048]="));
    let group = format!("{digit}{{4}}");
    format!("^whsec_(({group}){{8,20}}({group}|{two}|{one})?|({group}){{21}}{one})$")
}

#[cfg(test)]
mod tests {
    use super::secret;
    use crate::job::decode_secret;

    #[test]
    fn the_pattern_of_a_secret_allows_what_is_decoded() {
        let schema = serde_json::json!({ "pattern": secret() });
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        let ends = ["", "A", "AA", "AAA", "AA==", "AB==", "AAA=", "AAB=", "Zg==", "Zm8=", "+/+/"];
        for groups in 0..25 {
            for end in ends {
                let text = format!("whsec_{}{end}", "AAAA".repeat(groups));
                let fits = validator.is_valid(&text.as_str().into());
                assert_eq!(fits, decode_secret(&text).is_some(), "{text}");
            }
        }
    }
}
