//! The page, in a browser, on whatever cluster the tests run on.

use std::process::Command;

use crate::harness::cluster::REPOSITORY;
use crate::harness::target::{Target, applies};
use crate::harness::{Up, can_run_pods, needed};

/// The page's own test of its main road: fill in the form, watch the job, read its logs, see its curve, delete it.
/// On the embedded engine it runs with all the others, in `make test-ui`.
#[test]
fn the_page_takes_a_job_from_the_form_to_its_end() {
    if !applies(
        |target: Target| !target.is_embedded(),
        "make test-ui does it",
    ) || !can_run_pods()
    {
        return;
    }
    let playwright = format!("{REPOSITORY}/ui/node_modules/.bin/playwright");
    let found = std::path::Path::new(&playwright)
        .exists()
        .then_some(playwright);
    let Some(playwright) = needed(found, "the page's packages (make ui)") else {
        return;
    };
    let up = Up::start(&["--stop-pods", "--capacity", "cpu=4,memory=4Gi"]);
    let bearer = up.bearer();
    let token = bearer.trim_start_matches("authorization: Bearer ");
    let output = Command::new(playwright)
        .args(["test", "--project", "tests", "--reporter", "line"])
        .args(["--output", up.folder.path().join("page").to_str().unwrap()])
        .args(["--grep", "@cluster"])
        .current_dir(format!("{REPOSITORY}/ui"))
        .env("ASTRAGO_E2E_SERVER", format!("http://{}", up.address))
        .env("ASTRAGO_E2E_TOKEN", token)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", up.logs());
    assert!(said.contains("2 passed"), "{said}");
}
