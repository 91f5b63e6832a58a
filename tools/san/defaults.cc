// Default options of the sanitizers, read by their run-times before main().
//
// The environment variables (ASAN_OPTIONS and so on) still override them.

extern "C" {

// g++'s OpenMP run-time is not annotated for the thread sanitizer: every report with a frame of an
// outlined parallel region (`..._omp_fn.0`) is a false one.
const char* __tsan_default_suppressions() { return "race:_omp_fn\n"; }

const char* __tsan_default_options() {
  return "halt_on_error=1:second_deadlock_stack=1:allocator_may_return_null=1";
}

const char* __asan_default_options() {
  return "detect_stack_use_after_return=1:strict_string_checks=1";
}

const char* __ubsan_default_options() { return "print_stacktrace=1"; }

}  // extern "C"
