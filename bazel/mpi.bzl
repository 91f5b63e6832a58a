"""mpi_test runs a program on several MPI ranks of this machine.

    load("//bazel:mpi.bzl", "mpi_test")
    mpi_test(name = "mpi_test", binary = ":mpi_test_program", ranks = 4)
    mpi_test(name = "killed_test", binary = ":fault_program", args = ["kill"], dies = "rank 2 was lost")

The program is a testonly cc_binary whose main makes an MpiWorld.
"""

def mpi_test(name, binary, ranks = 4, limit_s = 50, dies = "", args = [], size = "small", tags = [], **kwargs):
    """A test that passes if all ranks end well, or, with `dies`, if the job fails as it says.

    Args:
      name: of the test.
      binary: the program.
      ranks: how many processes.
      limit_s: seconds after which the job is killed and the test fails.
      dies: a regular expression for the first line about a failure; the job must fail.
      args: of the program.
      size: of the test, as for cc_test.
      tags: as for cc_test.
      **kwargs: of sh_test.
    """
    native.sh_test(
        name = name,
        size = size,
        srcs = ["//bazel:mpirun.sh"],
        data = [binary],
        args = [str(ranks), str(limit_s)] + (["die", "'%s'" % dies] if dies else ["pass"]) +
               ["$(rootpath %s)" % binary] + args,
        tags = tags + ["mpi", "cpu:%d" % min(ranks, 2)],
        **kwargs
    )
