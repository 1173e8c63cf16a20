//! From method and path to what is asked for, as Kubernetes' `RequestInfo` resolves it.

use http::Method;

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Something under `/api/v1` or `/apis/GROUP/VERSION`.
    Resource(ResourcePath),
    /// Discovery, OpenAPI, health and the like.
    Other(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourcePath {
    pub group: String,
    pub version: String,
    /// Empty for cluster-scoped resources and for lists over all namespaces.
    pub namespace: String,
    pub resource: String,
    /// Empty for collections.
    pub name: String,
    pub subresource: String,
    /// What follows the subresource, for proxies.
    pub rest: String,
}

impl ResourcePath {
    /// Whether this is a namespace itself, and not something in one.
    pub(crate) fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.resource == "namespaces"
    }
}

/// Kubernetes' verbs, which are what RBAC rules name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    pub(crate) fn as_str(self) -> &'static str {
        self.into()
    }

    /// The verb of a method on an object or a collection.
    pub(crate) fn of(method: &Method, has_name: bool, watch: bool) -> Option<Self> {
        Some(match *method {
            Method::GET | Method::HEAD if watch => Self::Watch,
            Method::GET | Method::HEAD if has_name => Self::Get,
            Method::GET | Method::HEAD => Self::List,
            Method::POST => Self::Create,
            Method::PUT => Self::Update,
            Method::PATCH => Self::Patch,
            Method::DELETE if has_name => Self::Delete,
            Method::DELETE => Self::DeleteCollection,
            _ => return None,
        })
    }
}

/// Resolves a path (still percent-encoded). `None` when its encoding is broken.
pub fn parse(path: &str) -> Option<Target> {
    let segments: Vec<String> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(percent_decoded)
        .collect::<Option<_>>()?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (group, version, rest) = match segments.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        _ => return Some(Target::Other(format!("/{}", segments.join("/")))),
    };
    let mut found = ResourcePath {
        group: group.to_owned(),
        version: version.to_owned(),
        ..ResourcePath::default()
    };
    // `/namespaces/NAME/status` is a subresource of the namespace, `/namespaces/NAME/pods` are pods.
    let rest = match rest {
        ["namespaces", namespace, inner, ..]
            if group.is_empty() && matches!(*inner, "status" | "finalize") =>
        {
            (*namespace).clone_into(&mut found.namespace);
            rest
        }
        ["namespaces", namespace, inside @ ..] if !inside.is_empty() => {
            (*namespace).clone_into(&mut found.namespace);
            inside
        }
        ["namespaces", namespace] if group.is_empty() => {
            (*namespace).clone_into(&mut found.namespace);
            rest
        }
        _ => rest,
    };
    let mut rest = rest.iter().copied();
    rest.next()
        .unwrap_or_default()
        .clone_into(&mut found.resource);
    rest.next().unwrap_or_default().clone_into(&mut found.name);
    rest.next()
        .unwrap_or_default()
        .clone_into(&mut found.subresource);
    found.rest = rest.collect::<Vec<_>>().join("/");
    Some(Target::Resource(found))
}

/// Decodes `%XX`; `None` for broken escapes, bytes that are no UTF-8, and encoded slashes, which
/// would otherwise move the borders between the segments.
fn percent_decoded(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('/'))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::core("/api/v1/namespaces/a/pods/p/log", ("", "a", "pods", "p", "log"))]
    #[case::namespace("/api/v1/namespaces/a", ("", "a", "namespaces", "a", ""))]
    #[case::namespace_status("/api/v1/namespaces/a/status", ("", "a", "namespaces", "a", "status"))]
    #[case::namespaces("/api/v1/namespaces", ("", "", "namespaces", "", ""))]
    #[case::group("/apis/batch/v1/namespaces/a/jobs/j/status", ("batch", "a", "jobs", "j", "status"))]
    #[case::cluster("/apis/x.io/v1/things/t", ("x.io", "", "things", "t", ""))]
    #[case::all_namespaces("/apis/x.io/v1/things", ("x.io", "", "things", "", ""))]
    #[case::encoded("/api/v1/nodes/a%3Ab", ("", "", "nodes", "a:b", ""))]
    #[case::double_slash("/api/v1//pods", ("", "", "pods", "", ""))]
    fn resolves(#[case] path: &str, #[case] want: (&str, &str, &str, &str, &str)) {
        let Some(Target::Resource(found)) = parse(path) else {
            panic!("{path} is a resource")
        };
        let found = (
            found.group.as_str(),
            found.namespace.as_str(),
            found.resource.as_str(),
            found.name.as_str(),
            found.subresource.as_str(),
        );
        assert_eq!(found, want);
    }

    #[rstest]
    #[case("/api/v1")]
    #[case("/apis")]
    #[case("/openapi/v3/apis/batch/v1")]
    #[case("/version")]
    fn leaves_other_paths(#[case] path: &str) {
        assert_eq!(parse(path), Some(Target::Other(path.to_owned())));
    }

    #[rstest]
    #[case("/api/v1/pods/%")]
    #[case("/api/v1/pods/%zz")]
    #[case("/api/v1/pods/%ff")]
    #[case("/api/v1/namespaces/a/pods/..%2f..%2fsecrets")]
    fn refuses_broken_encodings(#[case] path: &str) {
        assert_eq!(parse(path), None);
    }
}
