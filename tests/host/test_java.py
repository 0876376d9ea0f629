"""Jobs of the java universe: with a program that stands in for a virtual machine, and with a real one where it is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from slotwise.wire.gen import schedd_pb2

from tests.support import host
from tests.support.starter_bench import starter_bench

pytestmark = pytest.mark.host
EXITED = schedd_pb2.RunEnded.EXITED
#: Tells its properties when asked, else its arguments.
STAND_IN = """#!/bin/sh
if [ "$2" = -version ]; then
  echo 'Property settings:' >&2
  echo '    java.version = 99.1' >&2
  echo '    java.vendor = Nobody' >&2
else
  for word; do echo "$word"; done
fi
"""


async def test_a_java_job_runs_under_the_program_that_java_names() -> None:
    async with starter_bench() as bench:
        java = bench.root / "java"
        java.write_text(STAND_IN)
        java.chmod(0o755)
        bench.root.chmod(0o755)
        bench.configure(JAVA=java, JAVA_CLASSPATH_DEFAULT=".", JAVA_EXTRA_ARGUMENTS="-Dsite=here")
        await bench.kill_9()
        await bench.start()
        startd = bench.startd
        assert startd is not None

        def with_java() -> Any:
            startd.command(facts={})
            return startd.facts if startd.facts is not None and "HasJava" in startd.facts else None

        facts = await bench.eventually(with_java, "the host has java")
        assert (facts["HasJava"], facts["JavaVersion"], facts["JavaVendor"]) == (True, "99.1", "Nobody")
        run = bench.submit("java", "Main", "1", JobUniverse=10, JarFiles="lib/a.jar", JavaVMArgs="-Xss1m")
        ended = await bench.ended(run)
        assert (ended.how, ended.code) == (EXITED, 0)
        said = bench.output(run).splitlines()
        assert said[0] == "-classpath"
        assert said[1].startswith(".:/") and said[1].endswith("/a.jar")
        assert said[2:] == ["-Dsite=here", "-Xss1m", "Main", "1"]


async def test_a_class_runs_under_a_real_virtual_machine(tmp_path: Path) -> None:
    host.need(host.programs("java", "javac"))
    java, javac = shutil.which("java"), shutil.which("javac")
    assert java is not None and javac is not None
    source = tmp_path / "Main.java"
    source.write_text(
        "public class Main { public static void main(String[] a) throws Exception {"
        ' System.out.println("hello " + a[0] + " " + System.getProperty("who"));'
        ' if (a[0].equals("bad")) throw new Exception("nobody catches this"); } }'
    )
    subprocess.run([javac, "-d", str(tmp_path), str(source)], check=True)
    compiled = (tmp_path / "Main.class").read_bytes()
    async with starter_bench(JAVA=java, JAVA_CLASSPATH_DEFAULT=".") as bench:
        for word, code in (("you", 0), ("bad", 1)):
            run = bench.submit(
                "java", "Main", word, inputs={"Main.class": compiled}, JobUniverse=10, JavaVMArgs="-Dwho=me"
            )
            ended = await bench.ended(run)
            assert (ended.how, ended.code) == (EXITED, code)
            assert bench.output(run) == f"hello {word} me\n"
