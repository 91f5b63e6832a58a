#!/usr/bin/env python3
"""Runs checks and Bazel tests and adds up their cases; see tools/test.

A case is a gtest case, a whole test of another kind (sh_test), or a check of this file. A target
that does not build, a test that crashes and a test that runs out of time count as one failed case.
"""
import argparse
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

NVCC = "/usr/local/cuda/bin/nvcc"


class Tally:
    """Counts of passed, failed and skipped cases, and the names of the failed ones."""

    def __init__(self):
        self.counts = collections.Counter()
        self.failed = []

    def add(self, outcome, name):
        self.counts[outcome] += 1
        if outcome == "failed":
            self.failed.append(name)

    def report(self):
        """Prints the failed cases and, as the last line, the counts."""
        for name in self.failed:
            print("FAILED", name)
        print("%d passed, %d failed, %d skipped" %
              tuple(self.counts[k] for k in ("passed", "failed", "skipped")))


def check(tally, name, command, expect=""):
    """One case: `command` exits with 0 and prints `expect`."""
    print("== " + name, flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout, end="", flush=True)
    passed = done.returncode == 0 and expect in done.stdout
    tally.add("passed" if passed else "failed", name)


def outcome_of(case):
    """passed, failed or skipped, from a <testcase> of a test.xml."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    skipped = case.get("result") in ("skipped", "suppressed") or case.get("status") == "notrun"
    return "skipped" if skipped else "passed"


def read_events(path, suffix, tally):
    """Adds to `tally` what Bazel's build events in the file `path` tell."""
    failures = collections.Counter()  # test label -> failed cases seen in its test.xml
    for event in map(json.loads, open(path)):
        ident = event["id"]
        for output in event.get("testResult", {}).get("testActionOutput", []):
            xml = output["uri"][len("file://"):]
            if output["name"] != "test.xml" or not os.path.exists(xml):
                continue
            label = ident["testResult"]["label"]
            for case in ElementTree.parse(xml).getroot().iter("testcase"):
                outcome = outcome_of(case)
                failures[label] += outcome == "failed"
                name = "%s.%s" % (case.get("classname", "whole"), case.get("name"))
                tally.add(outcome, "%s %s%s" % (label, name, suffix))
        if "testSummary" in event:
            status, label = event["testSummary"]["overallStatus"], ident["testSummary"]["label"]
            if status not in ("PASSED", "FLAKY") and not failures[label]:
                tally.add("failed", "%s: %s%s" % (label, status, suffix))
        if "targetCompleted" in ident and not event.get("completed", {}).get("success"):
            reason = event.get("aborted", {}).get("reason")
            if reason != "SKIPPED":  # needs a configuration that is off, such as CUDA
                label = ident["targetCompleted"]["label"]
                tally.add("failed", "%s: does not build%s" % (label, suffix))


def bazel_test(tally, title, options, targets, suffix=""):
    """Builds and tests `targets`, and adds their cases; `suffix` tells the configuration."""
    print("== " + title, flush=True)
    handle, events = tempfile.mkstemp(suffix=".json")
    os.close(handle)
    command = ["bazel", "test", "--keep_going", "--build_event_json_file=" + events]
    status = subprocess.call(command + options + ["--"] + targets)
    before = tally.counts["failed"]
    read_events(events, suffix, tally)
    os.unlink(events)
    if status != 0 and tally.counts["failed"] == before:
        tally.add("failed", "%s: bazel exited with status %d" % (title, status))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--long", action="store_true", help="also run tests tagged long")
    parser.add_argument("--ci", action="store_true", help="also build for CUDA, test under ASan")
    parser.add_argument("targets", nargs="*", help="only these targets; default: everything")
    options = parser.parse_args()
    tally = Tally()
    without_long = [] if options.long else ["-long"]
    if not options.targets:
        check(tally, "bootstrap again", ["tools/bootstrap"], expect="nothing to do")
        check(tally, "check_constraints", ["tools/check_constraints"])
        check(tally, "check_deps", ["tools/check_deps"])
        check(tally, "check_tree", ["tools/check_tree"])
        check(tally, "check_consumer", ["tools/check_consumer"])
    bazel_test(tally, "tests", ["--test_tag_filters=" + ",".join(without_long)],
               options.targets or ["//..."])
    if options.ci:
        if shutil.which(NVCC):
            check(tally, "CUDA build", ["bazel", "build", "--config=cuda", "//..."])
        bazel_test(tally, "tests under the address sanitizer",
                   ["--config=asan", "--build_tests_only",
                    "--test_tag_filters=" + ",".join(["asan"] + without_long)],
                   options.targets or ["//..."], suffix=" (asan)")
    tally.report()
    sys.exit(1 if tally.counts["failed"] else 0)


main()
