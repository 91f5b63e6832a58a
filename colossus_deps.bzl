"""All external repositories of Colossus, for its own WORKSPACE and for workspaces that use it.

In another workspace:

    local_repository(name = "colossus", path = "path/to/colossus")
    load("@colossus//:colossus_deps.bzl", "colossus_deps")
    colossus_deps(colossus = "path/to/colossus")

Libraries carry their upstream names, so a workspace that declares one of them before this call
(com_google_absl built from source, say) keeps its own.
"""

_BAZEL = "/usr/share/bazel/"

# Rule sets packaged by Debian: name -> folder.
_PACKAGED = {
    "bazel_skylib": _BAZEL + "tools/skylib",
    "platforms": _BAZEL + "tools/platforms",
    "rules_java": _BAZEL + "rules/java",
    "rules_proto": _BAZEL + "rules/proto",
}

# Folders of third_party/: name -> folder. Each gives an installed library its upstream label.
_SHIMS = {
    "com_github_google_benchmark": "benchmark",
    "com_google_absl": "absl",
    "com_google_googletest": "googletest",
    "liburing": "liburing",
    "nlohmann_json": "nlohmann_json",
    "onednn": "onednn",
    "pcre2": "pcre2",
    "remote_coverage_tools": "remote_coverage_tools",
    "rules_cc": "rules_cc",
    "tomlplusplus": "tomlplusplus",
    "utf8proc": "utf8proc",
    "xxhash": "xxhash",
}

def colossus_deps(
        colossus = ".",
        cuda = "/usr/local/cuda",
        openmpi = "/usr/lib/x86_64-linux-gnu/openmpi"):
    """Declares every repository that Colossus needs and that is not declared yet.

    Args:
      colossus: folder of Colossus, absolute or relative to the calling workspace.
      cuda: folder of the CUDA toolkit; read only by builds with --config=cuda.
      openmpi: folder with Open MPI's `include`; its library is the system's.
    """
    for name, path in _PACKAGED.items():
        if not native.existing_rule(name):
            native.local_repository(name = name, path = path)
    for name, folder in _SHIMS.items():
        if not native.existing_rule(name):
            native.local_repository(name = name, path = colossus + "/third_party/" + folder)
    if not native.existing_rule("cuda"):
        native.new_local_repository(
            name = "cuda",
            build_file = str(Label("//third_party/cuda:cuda.BUILD")),
            path = cuda,
        )
    if not native.existing_rule("openmpi"):
        native.new_local_repository(
            name = "openmpi",
            build_file = str(Label("//third_party/openmpi:openmpi.BUILD")),
            path = openmpi,
        )
