"""cuda_library compiles .cu files with nvcc; if_cuda chooses by --config=cuda.

    load("//bazel:cuda.bzl", "cuda_library", "if_cuda")
    cuda_library(name = "kernels_cu", srcs = ["kernels.cu"], hdrs = ["kernels.h"])
    cc_library(name = "kernels", deps = if_cuda([":kernels_cu"]), local_defines = if_cuda(["COLOSSUS_CUDA=1"]))

Without --config=cuda a cuda_library is skipped by `//...` and the toolkit is never looked for.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

_GENCODE = [
    "-gencode=arch=compute_80,code=sm_80",
    "-gencode=arch=compute_90,code=sm_90",
    "-gencode=arch=compute_90,code=compute_90",
]

# --fmad=false for the same reason as -ffp-contract=off in .bazelrc: only an explicit fma contracts.
_FLAGS = [
    "-c",
    "-std=c++20",
    "-O3",
    "-lineinfo",
    "--fmad=false",
    "--expt-relaxed-constexpr",
    "--extended-lambda",
    "-Xcompiler=-fPIC,-Wall,-Wno-unknown-pragmas",
    "-Werror=cross-execution-space-call,reorder",
]

def _nvcc_flags(ctx, toolchain, context):
    """nvcc's command line without source and output; `context`: the deps' compilation context."""
    flags = _FLAGS + _GENCODE + ctx.attr.copts
    flags = flags + ["-ccbin=" + toolchain.compiler_executable, "-I" + ctx.bin_dir.path]
    flags.append("-I" + (ctx.label.workspace_root or "."))
    flags += ["-D" + d for d in context.defines.to_list() + ctx.attr.defines]
    if ctx.var["COMPILATION_MODE"] == "opt":
        flags.append("-DNDEBUG")
    flags += ["-I" + p for p in context.quote_includes.to_list() + context.includes.to_list()]
    for path in context.system_includes.to_list():
        if "external/cuda/" not in path:  # nvcc knows its own headers
            flags += ["-isystem", path]
    return flags

def _cuda_library_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    deps = cc_common.merge_cc_infos(cc_infos = [d[CcInfo] for d in ctx.attr.deps])
    flags = _nvcc_flags(ctx, toolchain, deps.compilation_context)
    objects = []
    for src in ctx.files.srcs:
        obj = ctx.actions.declare_file("_cu/%s/%s.o" % (ctx.label.name, src.basename))
        ctx.actions.run(
            executable = "/usr/local/cuda/bin/nvcc",
            arguments = flags + [src.path, "-o", obj.path],
            outputs = [obj],
            inputs = depset(
                [src] + ctx.files.hdrs,
                transitive = [deps.compilation_context.headers, toolchain.all_files],
            ),
            env = {"PATH": "/usr/local/cuda/bin:/usr/bin:/bin", "TMPDIR": "/tmp"},
            mnemonic = "CudaCompile",
        )
        objects.append(obj)
    linking, _ = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        name = ctx.label.name,
        feature_configuration = features,
        cc_toolchain = toolchain,
        compilation_outputs = cc_common.create_compilation_outputs(
            objects = depset(objects),
            pic_objects = depset(objects),
        ),
        linking_contexts = [deps.linking_context],
        disallow_dynamic_library = True,
        alwayslink = ctx.attr.alwayslink,
    )
    own = cc_common.create_compilation_context(
        headers = depset(ctx.files.hdrs),
        defines = depset(ctx.attr.defines),
    )
    return [DefaultInfo(files = depset(objects)), cc_common.merge_cc_infos(
        direct_cc_infos = [CcInfo(compilation_context = own, linking_context = linking)],
        cc_infos = [CcInfo(compilation_context = deps.compilation_context)],
    )]

_cuda_library = rule(
    implementation = _cuda_library_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"]),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "copts": attr.string_list(),
        "defines": attr.string_list(),
        "alwayslink": attr.bool(),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def if_cuda(yes, no = []):
    """`yes` in builds with --config=cuda, else `no`."""
    return select({
        str(Label("//bazel:cuda_on")): yes,
        "//conditions:default": no,
    })

def cuda_library(name, deps = [], **kwargs):
    """A library of .cu files, linked like a cc_library; depends on the CUDA run-time by itself."""

    # The deps of an incompatible target are loaded too: the select keeps @cuda away.
    _cuda_library(
        name = name,
        deps = if_cuda(deps + ["@cuda//:cudart"]),
        target_compatible_with = if_cuda([], ["@platforms//:incompatible"]),
        **kwargs
    )
