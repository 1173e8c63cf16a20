//! The product's HTTP API and the embedded web page.
