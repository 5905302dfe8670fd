//! The arrows between the crates go one way: core ← rules ← slots ← flowgate ←
//! rim. And the inner crates stay lean.

#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

use std::process::Command;

use serde_json::Value;

/// From the innermost out. A crate may depend on those before it.
const LAYERS: [&str; 4] = [
    "flowgate-core",
    "flowgate-rules",
    "flowgate-slots",
    "flowgate",
];

/// What the inner crates may depend on beside each other. A further one is
/// argued in the manifest that names it, and added here.
const LEAN: [&str; 16] = [
    "arc-swap",
    "crossbeam-utils",
    "foldhash",
    "loom",
    "once_cell",
    "papaya",
    "portable-atomic",
    "quanta",
    "regex",
    "serde",
    "serde_json",
    "shuttle",
    "smallvec",
    "strsim",
    "thiserror",
    "tokio",
];

fn dependencies() -> Vec<(String, Vec<String>)> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    packages
        .map(|package| {
            let normal = package["dependencies"].as_array().unwrap().iter();
            let normal = normal.filter(|dependency| dependency["kind"].is_null());
            (
                text(&package["name"]),
                normal.map(|d| text(&d["name"])).collect(),
            )
        })
        .collect()
}

#[test]
fn arrows_between_crates_go_inwards_only() {
    let packages = dependencies();
    for (layer, name) in LAYERS.iter().enumerate() {
        let (_, depends_on) = packages
            .iter()
            .find(|(package, _)| package == name)
            .unwrap();
        let outward: Vec<_> = depends_on
            .iter()
            .filter(|other| other.starts_with("flowgate"))
            .filter(|other| !LAYERS[..layer].contains(&other.as_str()))
            .collect();
        assert!(outward.is_empty(), "{name} depends outwards on {outward:?}");
    }
}

#[test]
fn inner_crates_depend_on_little() {
    for (package, depends_on) in dependencies() {
        if LAYERS.contains(&package.as_str()) {
            let heavy: Vec<_> = depends_on
                .iter()
                .filter(|name| !name.starts_with("flowgate") && !LEAN.contains(&name.as_str()))
                .collect();
            assert!(heavy.is_empty(), "{package} depends on {heavy:?}");
        }
    }
}
