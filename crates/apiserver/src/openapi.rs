//! OpenAPI v3 documents of built-in and custom kinds.
