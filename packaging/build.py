"""Builds packages for distributions from the wheel: ``python packaging/build.py deb|rpm WHEEL [--python VERSION]``.

The package has everything in it, the libraries of requirements.lock included, in ``/usr/lib/slotwise``; it needs the
distribution's own Python of the version that it is built for. Written to ``dist/``. A package for another distribution
or processor is built on any host: wheels are downloaded, nothing is compiled.
"""

from __future__ import annotations

import argparse
import gzip
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from slotwise.cli.host import condor_names
from slotwise.cli.registry import CONDOR_NAMES
from slotwise.release import RELEASE_DIR

ROOT = Path(__file__).resolve().parent.parent
PACKAGING = ROOT / "packaging"
#: Where the package keeps its own Python environment.
LIBRARY = Path("usr/lib/slotwise")
_SUMMARY = "Resource manager for high-throughput computing pools"
_ABOUT = (
    "Owners of machines state policy in ClassAd expressions, users submit jobs, a negotiator matches the two. An "
    "HTCondor configuration, submit files and habits carry over."
)
#: Debian's names of processors, and RPM's, by Python's.
_PROCESSORS = {"x86_64": ("amd64", "x86_64"), "aarch64": ("arm64", "aarch64")}


@dataclass(frozen=True)
class Target:
    """What a package is built for. ``python``: the distribution's, as ``3.11``."""

    wheel: Path
    python: str
    processor: str
    extras: str

    @property
    def version(self) -> str:
        """The version of the package."""
        return self.wheel.name.split("-")[1]


def lay_out(target: Target, root: Path, zsh: str) -> None:
    """Put all files of the package under ``root``.

    :param zsh: where the distribution's zsh looks for what packages bring.
    """
    shutil.copytree(PACKAGING / "root", root)
    (root / "etc/slotwise/config.d").mkdir()
    _environment(target, root)
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/slotwise").symlink_to(os.path.relpath(f"/{LIBRARY}/bin/slotwise", "/usr/bin"))
    _from_help(root, zsh)
    place = root / "usr/share/doc/slotwise"
    (place / "examples").mkdir(parents=True)
    shutil.copytree(PACKAGING / "examples", place / "examples", dirs_exist_ok=True)
    shutil.copy2(ROOT / "LICENSE", place / "copyright")
    with gzip.GzipFile(place / "changelog.gz", "wb", mtime=0) as stream:
        stream.write((ROOT / "CHANGELOG.md").read_bytes())
    for path in root.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def _environment(target: Target, root: Path) -> None:
    """A Python environment that starts with the distribution's interpreter."""
    home = root / LIBRARY
    packages = home / f"lib/python{target.python}/site-packages"
    wheel = f"{target.wheel}[{target.extras}]" if target.extras else str(target.wheel)
    platforms = [f"--platform=manylinux_2_{minor}_{target.processor}" for minor in (28, 27, 26, 24, 17, 12, 5)]
    platforms += [f"--platform=manylinux2014_{target.processor}", f"--platform=linux_{target.processor}"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    chosen = ["--only-binary=:all:", f"--python-version={target.python}", *platforms, f"--target={packages}"]
    subprocess.run([*pip, *chosen, f"--constraint={_constraints(root.parent)}", wheel], check=True)
    shutil.rmtree(packages / "bin")
    for kept in packages.glob("*.dist-info/direct_url.json"):
        kept.unlink()  # names the builder's directory
    programs = home / "bin"
    programs.mkdir()
    (programs / "python").symlink_to(f"/usr/bin/python{target.python}")
    (home / "pyvenv.cfg").write_text(
        f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {target.python}\n"
    )
    with zipfile.ZipFile(target.wheel) as archive:
        launcher = next(name for name in archive.namelist() if re.fullmatch(r"[^/]+\.data/scripts/slotwise", name))
        (programs / "slotwise").write_bytes(archive.read(launcher))
    (programs / "slotwise-py").write_text(
        f"#!/{LIBRARY}/bin/python -I\nimport sys\n\nfrom slotwise.cli.main import run\n\nsys.exit(run())\n"
    )
    for name in ("slotwise", "slotwise-py"):
        (programs / name).chmod(0o755)
    # What `slotwise condor-names` prints, for PATH: made here, as users cannot.
    names = packages / "slotwise" / condor_names.DIRECTORY.name
    names.mkdir()
    for name in CONDOR_NAMES:
        (names / name).symlink_to(os.path.relpath(programs / "slotwise", names))
    condor_names.lay_out(packages / "slotwise" / RELEASE_DIR.name)
    if (compiler := shutil.which(f"python{target.python}")) is not None:
        # Daemons of other accounts than root could not keep what they compile, and each start would compile anew.
        words = [
            "-m",
            "compileall",
            "-q",
            "--invalidation-mode=unchecked-hash",
            "-s",
            str(root),
            "-p",
            "/",
            str(packages),
        ]
        subprocess.run([compiler, *words], check=True)


def _constraints(directory: Path) -> Path:
    """The versions of requirements.lock, without the hashes: the wheel of the project itself has none there."""
    lines = re.findall(r"^([A-Za-z0-9_.\-]+==[^\s\\;]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    path = directory / "constraints.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def _from_help(root: Path, zsh: str) -> None:
    """Man pages and completion, made by the commands of this environment."""
    pages = root / "usr/share/man"
    subprocess.run([sys.executable, "-m", "slotwise.cli.man", str(pages), str(ROOT / "docs")], check=True)
    for page in sorted(pages.glob("man*/*")):
        with gzip.GzipFile(page.with_name(f"{page.name}.gz"), "wb", mtime=0) as stream:
            stream.write(page.read_bytes())
        page.unlink()
    for shell, place in (
        ("bash", "usr/share/bash-completion/completions/slotwise"),
        ("zsh", f"{zsh}/_slotwise"),
        ("fish", "usr/share/fish/vendor_completions.d/slotwise.fish"),
    ):
        words = [sys.executable, "-m", "slotwise", "completion", shell]
        text = subprocess.run(words, check=True, capture_output=True).stdout
        (root / place).parent.mkdir(parents=True)
        (root / place).write_bytes(text)


def build_deb(target: Target, work: Path, out: Path) -> Path:
    """A Debian package."""
    root = work / "root"
    lay_out(target, root, "usr/share/zsh/vendor-completions")
    about = root / "DEBIAN"
    about.mkdir()
    processor = _PROCESSORS[target.processor][0]
    size_kib = sum(path.lstat().st_size for path in root.rglob("*")) // 1024
    (about / "control").write_text(
        f"Package: slotwise\nVersion: {target.version}\nArchitecture: {processor}\nSection: admin\nPriority: optional\n"
        f"Maintainer: The Slotwise maintainers <packages@slotwise.invalid>\nInstalled-Size: {size_kib}\n"
        f"Depends: python{target.python}, libc6 (>= 2.28), passwd, util-linux\n"
        "Recommends: ca-certificates, openssh-client\nSuggests: lvm2, cryptsetup-bin, thin-provisioning-tools\n"
        f"Description: {_SUMMARY}\n {_ABOUT}\n"
    )
    files = sorted(path for path in (root / "etc").rglob("*") if path.is_file())
    (about / "conffiles").write_text("".join(f"/{path.relative_to(root)}\n" for path in files))
    for name, script in (("postinst", "after-install"), ("prerm", "before-remove"), ("postrm", "after-remove")):
        shutil.copy2(PACKAGING / "scripts" / f"{script}.sh", about / name)
        (about / name).chmod(0o755)
    made = out / f"slotwise_{target.version}_{processor}.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", str(root), str(made)], check=True, stdout=sys.stderr)
    return made


def build_rpm(target: Target, work: Path, out: Path) -> Path:
    """An RPM package."""
    root = work / "root"
    lay_out(target, root, "usr/share/zsh/site-functions")
    processor = _PROCESSORS[target.processor][1]
    scripts = {
        section: (PACKAGING / "scripts" / f"{name}.sh").read_text().replace("%", "%%")
        for section, name in (("post", "after-install"), ("preun", "before-remove"), ("postun", "after-remove"))
    }
    files = []
    for path in sorted(root.rglob("*")):
        inside = f"/{path.relative_to(root)}"
        if inside.startswith("/etc/") and path.is_file():
            files.append(f"%config(noreplace) {inside}")
        elif not path.is_dir() or path.is_symlink():
            files.append(f'"{inside}"')
        elif "slotwise" in inside:
            files.append(f'%dir "{inside}"')
    spec = work / "slotwise.spec"
    spec.write_text(
        f"Name: slotwise\nVersion: {target.version}\nRelease: 1\nSummary: {_SUMMARY}\nLicense: Apache-2.0\n"
        f"Requires: /usr/bin/python{target.python}, shadow-utils, util-linux\nAutoReqProv: no\n"
        # What is packed is ready: nothing is stripped, compiled or taken apart.
        "%global __os_install_post %{nil}\n%global debug_package %{nil}\n%global _build_id_links none\n"
        f"%description\n{_ABOUT}\n%install\ncp -a '{root}/.' '%{{buildroot}}/'\n"
        + "".join(f"%{section}\n{script}" for section, script in scripts.items())
        + "%files\n%defattr(-, root, root)\n"
        + "\n".join(files)
        + "\n"
    )
    words = ["rpmbuild", "-bb", "--quiet", f"--target={processor}-linux", f"--define=_topdir {work / 'rpm'}"]
    words += [f"--define=_rpmdir {out}", "--define=_rpmfilename %{name}-%{version}-%{release}.%{arch}.rpm"]
    subprocess.run([*words, str(spec)], check=True, stdout=sys.stderr)
    return out / f"slotwise-{target.version}-1.{processor}.rpm"


def main() -> None:
    """Build what the command line asks for, and print the file's path."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=("deb", "rpm"))
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", default="3.11", help="the distribution's Python (default 3.11)")
    parser.add_argument("--extras", default="", help="extras of the wheel: analysis, plot, web")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    options = parser.parse_args()
    wheel = options.wheel.resolve()
    processor = next((name for name in _PROCESSORS if wheel.stem.endswith(name)), platform.machine())
    target = Target(wheel, options.python, processor, options.extras)
    work = ROOT / "build" / options.kind
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    options.out.mkdir(parents=True, exist_ok=True)
    build = build_deb if options.kind == "deb" else build_rpm
    sys.stdout.write(f"{build(target, work, options.out.resolve())}\n")


if __name__ == "__main__":
    main()
