"""fuzz_target: one reader under seeded mutations, and under libFuzzer."""

def fuzz_target(name, deps, runs = 10000, data = []):
    """Makes NAME_fuzz_test (part of all tests), NAME_fuzz (long runs), NAME_libfuzzer.

    Args:
      name: NAME_target.cc defines Target(), see fuzz_target.h.
      deps: of that file.
      runs: inputs of the test; seconds under the address sanitizer.
      data: files the seeds are read from.
    """
    native.cc_library(
        name = name + "_target",
        testonly = True,
        srcs = [name + "_target.cc"],
        data = data,
        deps = deps + [":fuzz_target"],
        alwayslink = True,
    )
    native.cc_test(
        name = name + "_fuzz_test",
        size = "medium",
        args = ["--runs=%d" % runs],
        env = {"ASAN_OPTIONS": "hard_rss_limit_mb=3072"},
        tags = ["asan"],
        deps = [":driver", ":" + name + "_target"],
    )
    native.cc_binary(
        name = name + "_fuzz",
        testonly = True,
        deps = [":driver", ":" + name + "_target"],
    )
    native.cc_binary(
        name = name + "_libfuzzer",
        testonly = True,
        srcs = ["libfuzzer.cc"],
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = [":fuzz_target", ":" + name + "_target"],
    )
