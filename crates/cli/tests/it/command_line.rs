//! What the program says when it is used wrongly, and how it answers without running any pods.

use std::net::TcpListener;
use std::process::Stdio;

use serde_json::json;

use crate::harness::target::{Target, applies};
use crate::harness::{Up, astrago, can_run_pods};

fn error_of(arguments: &[&str]) -> (Option<i32>, String) {
    let output = astrago().args(arguments).output().unwrap();
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn whoever_gives_no_command_is_told_what_to_do_first() {
    for server in [None, Some("http://127.0.0.1:1")] {
        let mut command = astrago();
        let output = command.envs(server.map(|url| ("ASTRAGO_SERVER", url)));
        let output = output.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("First steps:"),
            "{said}"
        );
    }
}

#[test]
fn without_a_server_clients_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let (code, stderr) = error_of(&["jobs", "--data-dir", folder.path().to_str().unwrap()]);
    assert_eq!(code, Some(2));
    insta::assert_snapshot!(stderr, @r"
    error: there is no server on this machine

    hint: start one with `astrago up`, or name one with --server URL
    ");
    // A server for the time of the command has nothing to give to a job that is left alone.
    let script = folder.path().join("train.py");
    std::fs::write(&script, "print()").unwrap();
    let data = folder.path().join("data");
    let (code, stderr) = error_of(&[
        "run",
        script.to_str().unwrap(),
        "--detach",
        "--data-dir",
        data.to_str().unwrap(),
    ]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("or leave out --detach"), "{stderr}");
    assert!(!data.exists());
}

#[test]
fn a_server_that_is_not_there_is_our_fault_and_says_so() {
    let (code, stderr) = error_of(&["jobs", "--server", "http://127.0.0.1:1"]);
    assert_eq!(code, Some(2));
    assert!(
        stderr.starts_with("error: failed to reach the server at http://127.0.0.1:1\n"),
        "{stderr}"
    );
    assert!(stderr.contains("  caused by: "), "{stderr}");
}

#[test]
fn a_job_file_is_written_read_and_its_mistakes_are_named_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let in_folder = |arguments: &[&str]| {
        let mut command = astrago();
        let server = ["--server", "http://127.0.0.1:1"];
        command.args(arguments).args(server);
        let output = command.current_dir(folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let (code, said) = in_folder(&["run"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("there is no astrago.yaml here") && said.contains("astrago init"),
        "{said}"
    );

    std::fs::create_dir(folder.path().join("tools")).unwrap();
    std::fs::write(folder.path().join("tools/fit.py"), "import torch\n").unwrap();
    let (code, said) = in_folder(&["init", "tools/fit.py"]);
    assert_eq!(code, Some(0), "{said}");
    let file = folder.path().join("astrago.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("\nentry: tools/fit.py\nframework: pytorch\n"),
        "{text}"
    );
    assert!(folder.path().join(".astrago.schema.json").is_file());
    // The script is found, and then there is no server.
    let (code, said) = in_folder(&["run"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("failed to reach the server"), "{said}");

    std::fs::write(&file, text + "gpu: 1\nserver: http://127.0.0.1:2\n").unwrap();
    for arguments in [&["run"][..], &["run", "."]] {
        let (code, said) = in_folder(arguments);
        assert_eq!(code, Some(1), "{said}");
        assert!(
            said.contains("gpu: there is no such field; did you mean gpus?"),
            "{said}"
        );
        assert!(said.contains("server: there is no such field"), "{said}");
        assert!(said.contains("astrago run --help"), "{said}");
    }
}

#[test]
fn no_authentication_is_refused_beyond_loopback() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let (code, stderr) = error_of(&[
        "up",
        "--no-auth",
        "--listen",
        "0.0.0.0:0",
        "--data-dir",
        data,
    ]);
    assert_eq!(code, Some(1));
    assert!(
        stderr.contains("--no-auth makes everybody the administrator"),
        "{stderr}"
    );
}

#[test]
fn flags_that_make_no_sense_are_refused_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for (flags, want) in [
        (["--capacity", "cpu=many"], "cpu: "),
        (["--capacity", "cpu"], "NAME=VALUE"),
        (
            ["--python", "/nowhere/python3"],
            "there is no Python interpreter",
        ),
        (["--python", "/etc/passwd"], "failed to run /etc/passwd"),
        (
            ["--listen", "0.0.0.0:0"],
            "tokens would travel in the clear",
        ),
        (["--tls-cert", "/nowhere/cert.pem"], "--tls-key"),
        (
            ["--allow-host-path", folder.path().to_str().unwrap()],
            "where all tokens and files are kept",
        ),
        (
            ["--allow-host-path", data.join("node").to_str().unwrap()],
            "where all tokens and files are kept",
        ),
    ] {
        let mut arguments = vec!["up", "--data-dir", data.to_str().unwrap()];
        arguments.extend(flags);
        let (code, stderr) = error_of(&arguments);
        assert!(matches!(code, Some(1 | 2)), "{flags:?}: {code:?} {stderr}");
        assert!(stderr.contains(want), "{flags:?}: {stderr}");
    }
}

#[test]
fn whoever_is_ready_has_its_node() {
    if !can_run_pods() {
        return;
    }
    let up = Up::start(&["--no-auth"]);
    let (code, nodes) = up.get("/api/nodes");
    assert_eq!((code, &nodes[0]["ready"]), (200, &true.into()), "{nodes}");
}

/// The command line trusts whom it is told to trust, and nobody else.
#[test]
fn the_rest_api_is_served_over_tls() {
    if !applies(
        |target| !target.kubernetes,
        "in a cluster TLS ends before the server",
    ) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let key = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (cert, secret) = (
        folder.path().join("cert.pem"),
        folder.path().join("key.pem"),
    );
    std::fs::write(&cert, key.cert.pem()).unwrap();
    std::fs::write(&secret, key.signing_key.serialize_pem()).unwrap();
    let files = [
        "--tls-cert",
        cert.to_str().unwrap(),
        "--tls-key",
        secret.to_str().unwrap(),
    ];
    let up = Up::start(&[&["--no-node"], &files[..]].concat());
    let data = up.folder.path().join("data");
    let endpoints = std::fs::read_to_string(data.join("endpoints.json")).unwrap();
    let endpoints: serde_json::Value = serde_json::from_str(&endpoints).unwrap();
    let server = endpoints["rest"].as_str().unwrap();
    assert!(server.starts_with("https://127.0.0.1:"), "{server}");
    let token = std::fs::read_to_string(data.join("admin.token")).unwrap();
    let asked = ["jobs", "--server", server, "--token", token.trim()];
    let (code, stderr) = error_of(&asked);
    assert_eq!(
        code,
        Some(2),
        "an unknown authority is not trusted: {stderr}"
    );
    let trusting = [&asked[..], &["--ca-cert", cert.to_str().unwrap()]].concat();
    let (code, stderr) = error_of(&trusting);
    assert_eq!(code, Some(0), "{stderr}");
    up.stop();
}

#[test]
fn one_folder_serves_one_up_and_tells_the_second() {
    if !applies(
        Target::is_embedded,
        "it is about the folder of `astrago up`",
    ) {
        return;
    }
    let up = Up::start(&["--no-node"]);
    let data = up.folder.path().join("data");
    let (code, stderr) = error_of(&["up", "--data-dir", data.to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(
        stderr.contains("another `astrago up` already uses"),
        "{stderr}"
    );
    let endpoints = std::fs::read_to_string(data.join("endpoints.json")).unwrap();
    let endpoints: serde_json::Value = serde_json::from_str(&endpoints).unwrap();
    assert_eq!(endpoints["rest"], format!("http://{}", up.address));
    let (code, _) = up.stop();
    assert_eq!(code, Some(0));
    assert!(!data.join("endpoints.json").exists());
}

#[test]
fn users_are_kept_apart() {
    if !applies(
        |target| !target.kubernetes,
        "users of a cluster are the cluster's",
    ) {
        return;
    }
    let up = Up::start(&["--no-node"]);
    let (code, body) = up.get("/api/trainjobs");
    assert_eq!(
        (code, &body["error"]["code"]),
        (401, &json!("unauthenticated"))
    );
    let token = |name: &str| {
        let output = up.run(&["user", "add", name, "-o", "json"]);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let user: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        format!("authorization: Bearer {}", user["token"].as_str().unwrap())
    };
    let (kim, lee) = (token("kim"), token("lee"));
    let form = |user: &str, namespace: &str| json!({ "user_id": user, "namespace": namespace, "framework": "pytorch", "training_code": "print()", "num_nodes": 1 });
    let create = |form: &serde_json::Value, who: &str| {
        up.request("POST", "/api/trainjob/create", Some(form), &[who])
    };
    let (code, made) = create(&form("kim", "user-kim"), &kim);
    assert_eq!(code, 200, "{made}");
    let name = made["trainjob_name"].as_str().unwrap();
    for (form, who) in [
        (form("lee", "user-kim"), &lee),
        (form("kim", "user-kim"), &lee),
        (form("lee", "kube-system"), &lee),
        (form("lee", "default"), &lee),
        (form("lee", "somebody-else"), &lee),
    ] {
        let (code, body) = create(&form, who);
        assert_eq!(code, 403, "{form} {body}");
    }
    for path in [
        format!("/api/trainjob/{name}/status?namespace=user-kim"),
        format!("/api/trainjob/{name}/logs?namespace=user-kim"),
        format!("/api/trainjobs/{name}?namespace=user-kim"),
        format!("/api/trainjobs/{name}/events?namespace=user-kim"),
        format!("/api/trainjobs/{name}/logs/stream?namespace=user-kim"),
        "/api/secrets?namespace=user-kim".to_owned(),
        "/api/users".to_owned(),
        "/api/audit".to_owned(),
    ] {
        let (code, body) = up.request("GET", &path, None, &[&lee]);
        assert_eq!(code, 403, "{path} {body}");
    }
    let (_, list) = up.request("GET", "/api/trainjobs", None, &[&lee]);
    assert_eq!(list["total"], 0, "{list}");
    let (code, _) = up.request(
        "DELETE",
        &format!("/api/trainjob/{name}?namespace=user-kim"),
        None,
        &[&lee],
    );
    assert_eq!(code, 403);
    let (code, status) = up.request(
        "GET",
        &format!("/api/trainjob/{name}/status"),
        None,
        &[&kim],
    );
    assert_eq!(
        (code, &status["state"]),
        (200, &json!("Pending")),
        "{status}"
    );
}

#[test]
fn wrong_requests_are_answered_and_leave_nothing_behind() {
    let up = Up::start(&["--no-node", "--no-auth"]);
    let body = json!({ "user_id": 5, "namespace": "Team", "framework": "caffe", "config": { "num_nodes": 0 } });
    let (code, answer) = up.post("/api/trainjob/create", &body);
    assert_eq!(code, 422);
    let fields: Vec<&str> = answer["error"]["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|field| field["field"].as_str().unwrap())
        .collect();
    assert_eq!(
        fields,
        [
            "user_id",
            "namespace",
            "framework",
            "training_code",
            "config.num_nodes"
        ]
    );
    for (path, want) in [
        ("/api/trainjob/none/status?namespace=default", 404),
        ("/api/trainjob/none/status", 422),
        ("/api/trainjob/none/logs?namespace=default&worker=x", 422),
        ("/api/trainjob/none/logs?namespace=default&worker=-1", 422),
        ("/api/nothing", 404),
        ("/api/trainjobs?state=Sleeping", 422),
    ] {
        let (code, answer) = up.get(path);
        assert_eq!(code, want, "{path} {answer}");
        assert!(answer["error"]["message"].is_string(), "{path} {answer}");
    }
    // Of a server that asks for no token; one that does, as on a cluster, cannot be used by another's page.
    if !Target::chosen().kubernetes {
        let origin = ["origin: http://evil.example"];
        assert_eq!(up.request("GET", "/api/trainjobs", None, &origin).0, 403);
    }
    let (_, namespaces) = up.get("/api/namespaces");
    assert!(!namespaces.to_string().contains("Team"));

    // On the command line, by the names that its user knows.
    let script = up.folder.path().join("train.py");
    std::fs::write(&script, "print()").unwrap();
    let run = ["run", script.to_str().unwrap(), "--cpu", "lots"];
    let output = up.run(&run);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let want = "error: --cpu: \"lots\" is not a quantity";
    assert!(stderr.starts_with(want), "{stderr}");
    let output = up.run(&[&run[..], &["--nodes", "0"]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("\n  --nodes: must be between 1 and"),
        "{stderr}"
    );
}

/// A job in another namespace must not move what comes after it there, and a slip makes no namespace.
#[test]
fn commands_stay_in_the_namespace_that_was_named() {
    if !applies(
        Target::is_embedded,
        "the administrator of a cluster is not ours",
    ) {
        return;
    }
    let up = Up::start(&["--no-node"]);
    let script = up.folder.path().join("train.py");
    std::fs::write(&script, "print()").unwrap();
    let script = script.to_str().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = astrago();
        let output = command
            .envs(up.client())
            .env("XDG_CONFIG_HOME", up.folder.path())
            .args(arguments)
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        (output.status.code(), text)
    };
    let submit = ["run", script, "--detach", "--name", "same"];
    assert_eq!(run(&submit).0, Some(0));
    // What has printed nothing says why.
    let (code, log) = run(&["logs", "same"]);
    assert_eq!(code, Some(0), "{log}");
    assert!(
        log.starts_with("astrago: same has no log yet: Pending"),
        "{log}"
    );
    let (code, log) = run(&["logs", "same", "--worker", "3"]);
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("has no worker 3; it has 0 to 0"), "{log}");
    let (code, slip) = run(&[&submit[..], &["-n", "epx"]].concat());
    assert_eq!(code, Some(1), "{slip}");
    assert!(slip.contains("there is no namespace \"epx\""), "{slip}");
    assert!(slip.contains("there are: default"), "{slip}");
    let (code, made) = run(&[&submit[..], &["-n", "exp", "--create-namespace"]].concat());
    assert_eq!(code, Some(0), "{made}");
    let (_, list) = run(&["jobs", "-n", "epx"]);
    assert!(list.contains("there is no namespace"), "{list}");
    let (code, deleted) = run(&["delete", "same"]);
    assert_eq!(
        (code, deleted.as_str()),
        (Some(0), "deleted same in namespace default\n")
    );
    let (_, left) = run(&["jobs", "-o", "json"]);
    let left: serde_json::Value = serde_json::from_str(&left).unwrap();
    assert_eq!(left["items"][0]["namespace"], "exp", "{left}");
    // Chosen on purpose, it stays chosen.
    assert_eq!(run(&["namespace", "use", "exp"]).0, Some(0));
    let (_, held) = run(&["suspend", "same"]);
    assert!(
        held.starts_with("suspended same in namespace exp"),
        "{held}"
    );
    let (code, all) = run(&["delete", "--all"]);
    assert_eq!(code, Some(1), "{all}");
    assert!(all.contains("1 job in namespace exp: same"), "{all}");
    assert_eq!(run(&["delete", "--all", "--yes"]).0, Some(0));
}

/// Every command that talks to a server, whichever there will be: those of `--help` are counted.
#[test]
fn every_command_gives_up_a_server_that_says_nothing() {
    // Its connections are taken by the kernel, and by nobody else.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", silent.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("train.py"), "import torch").unwrap();
    std::fs::write(folder.path().join("job.yaml"), "kind: TrainJob").unwrap();
    let asking = [
        "jobs",
        "jobs --watch",
        "job j",
        "logs j",
        "logs j --follow",
        "logs j --worker 0 -o json",
        "metrics j",
        "events j",
        "shell j",
        "exec j -- true",
        "cp j:/a b",
        "cp train.py j:/a",
        "port-forward j 0:80",
        "stacks j",
        "delete j --yes",
        "delete --all --yes",
        "suspend j",
        "resume j",
        "restart j",
        "code j",
        "run train.py",
        "run . --detach",
        "nodes",
        "runtimes",
        "apply -f job.yaml",
        "namespace list",
        "namespace create n",
        "namespace use n",
        "user add kim",
        "user list",
        "user remove kim",
        "job-names",
        "mcp",
    ];
    // They say it in their answer.
    let telling = ["doctor", "version"];
    let alone = "up serve controllers node init preview migrate backup restore completions help";
    let help = astrago().arg("--help").output().unwrap().stdout;
    let help = String::from_utf8(help).unwrap();
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    for command in commands.filter_map(|line| line.split_whitespace().next()) {
        let mut tried = asking.iter().chain(&telling);
        let first = |words: &&str| words.split(' ').next() == Some(command);
        let known = alone.split(' ').any(|one| one == command) || tried.any(first);
        assert!(
            known,
            "{command}: what does it do when the server says nothing?"
        );
    }

    let start = |words: &&'static str| {
        let mut command = astrago();
        command.args(words.split(' ').take_while(|word| *word != "--"));
        command.args(["--server", &server, "--token", "t", "--timeout", "1"]);
        command.args(words.split(' ').skip_while(|word| *word != "--"));
        let command = command
            .current_dir(folder.path())
            .env("HOME", folder.path());
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        (*words, command.stderr(Stdio::piped()).spawn().unwrap())
    };
    let started: Vec<_> = asking.iter().chain(&telling).map(start).collect();
    for (words, child) in started {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if telling.contains(&words) {
            assert!(output.status.code().is_some(), "{words}: {output:?}");
            continue;
        }
        assert_eq!(output.status.code(), Some(2), "{words}: {said}");
        let sentence = format!("error: the server at {server} has not answered for 1 s");
        assert!(said.starts_with(&sentence), "{words}: {said}");
    }
}

#[test]
fn a_commit_is_run_found_by_its_labels_and_completed_by_its_name() {
    if !applies(
        Target::is_embedded,
        "the administrator of a cluster is not ours",
    ) {
        return;
    }
    let up = Up::start(&["--no-auth", "--no-node"]);
    let repository = up.folder.path().join("repository");
    std::fs::create_dir_all(repository.join("tools")).unwrap();
    std::fs::write(repository.join("tools/train.py"), "import torch\n").unwrap();
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.arg("-C").arg(&repository).args([
            "-c",
            "user.name=kim",
            "-c",
            "user.email=kim@example.com",
        ]);
        let output = command.args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    git(&["init", "--quiet", "--initial-branch", "main"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "one"]);
    let commit = git(&["rev-parse", "HEAD"]);
    git(&["rm", "--quiet", "tools/train.py"]);
    git(&["commit", "--quiet", "--allow-empty", "-m", "two"]);

    let run = |arguments: &[&str]| {
        let output = up.run(arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let address = repository.to_str().unwrap();
    let wanted = format!("{address}@{commit}");
    let (code, _, error) = run(&[
        "run",
        "--git",
        &wanted,
        "tools/train.py",
        "--name",
        "digits",
        "--detach",
    ]);
    assert_eq!(code, Some(0), "{error}");
    let (_, job, _) = run(&["job", "digits"]);
    assert!(
        job.contains(&format!("{commit} of {address}\n")),
        "{commit}: {job}"
    );
    let (code, _, error) = run(&["run", "--git", &format!("{address}@nowhere"), "--detach"]);
    assert_eq!(code, Some(1), "{error}");
    assert!(error.starts_with("error: git fetch failed: "), "{error}");

    assert_eq!(run(&["job-names"]).1, "digits\n");
    let (_, none, _) = run(&["jobs", "-l", "astrago.io/framework!=pytorch"]);
    assert!(none.starts_with("no jobs"), "{none}");
    let (_, _, error) = run(&["jobs", "-l", "a b"]);
    assert!(error.contains("name=value,other!=value"), "{error}");
    let (code, gone, error) = run(&["delete", "-l", "astrago.io/framework=pytorch", "--yes"]);
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(gone, "deleted digits in namespace default\n");
}
