#!/bin/bash
# Writes third_party/absl: upstream's labels over Debian's libabsl-dev. Run it again after an
# upgrade of the package, or to add a label to the table below, and commit the result.
#
# Every label depends on one target that names all of Abseil's shared libraries; --as-needed keeps
# in a binary only those it uses. Headers lie in /usr/include, which the compiler searches anyway.
set -euo pipefail
cd "$(dirname "$0")"

table=(
  algorithm:algorithm,container
  base:base,config,core_headers,dynamic_annotations,endian,log_severity,prefetch
  cleanup:cleanup
  container:btree,fixed_array,flat_hash_map,flat_hash_set,inlined_vector,node_hash_map,node_hash_set
  debugging:failure_signal_handler,leak_check,stacktrace,symbolize
  flags:flag,parse,usage,reflection,marshalling,config
  functional:any_invocable,bind_front,function_ref
  hash:hash
  memory:memory
  meta:type_traits
  numeric:bits,int128,representation
  random:random,bit_gen_ref,distributions,seed_gen_exception,seed_sequences
  status:status,statusor
  strings:strings,cord,str_format
  synchronization:synchronization
  time:time,civil_time
  types:any,optional,span,variant,compare
  utility:utility
)

rm -rf absl/absl
mkdir -p absl/absl
echo 'workspace(name = "com_google_absl")' >absl/WORKSPACE
{
  printf 'cc_library(\n    name = "debian",\n    linkopts = [\n        "-Wl,--push-state,--as-needed",\n'
  for file in /usr/lib/x86_64-linux-gnu/libabsl_*.so; do
    lib=$(basename "$file" .so)
    [[ $lib == *test_util* ]] || echo "        \"-l${lib#lib}\","
  done
  printf '        "-latomic",\n        "-Wl,--pop-state",\n        "-pthread",\n    ],\n'
  printf '    visibility = ["//absl:__subpackages__"],\n)\n'
} >absl/absl/BUILD
for line in "${table[@]}"; do
  folder=absl/absl/${line%%:*}
  mkdir -p "$folder"
  {
    echo 'package(default_visibility = ["//visibility:public"])'
    for name in $(tr , ' ' <<<"${line#*:}"); do
      printf '\ncc_library(\n    name = "%s",\n    deps = ["//absl:debian"],\n)\n' "$name"
    done
  } >"$folder/BUILD"
done
