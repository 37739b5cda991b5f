"""Runs programs inside an image with runc alone, confined as a restricted pod confines them: a user that is not root,
no capability, no new privileges, and, unless asked otherwise, a root file system that cannot be written."""
import itertools
import json
import os
import shutil
import subprocess
import tarfile

_numbers = itertools.count()


class Image:
    """A docker-archive file, unpacked below `folder`. Whiteouts are not applied: what a layer above removes is still in
    the image for whoever looks, and so for the tests."""

    def __init__(self, archive, folder):
        self.archive = archive
        self.root = folder / "rootfs"
        self.root.mkdir(parents=True)
        with tarfile.open(archive) as tar:
            manifest = json.load(tar.extractfile("manifest.json"))[0]
            self.tags = manifest["RepoTags"]
            self.config = json.load(tar.extractfile(manifest["Config"]))["config"]
            for layer in manifest["Layers"]:
                self._unpack(tar.extractfile(layer))

    def _unpack(self, layer):
        command = ["tar", "-x", "-p", "--numeric-owner", "-C", str(self.root), "-f", "-"]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
            shutil.copyfileobj(layer, child.stdin)
            child.stdin.close()
            assert child.wait() == 0

    def remove(self):
        """Removes what was unpacked."""
        shutil.rmtree(self.root)

    def compressed_bytes(self):
        """What a registry would store and a node would fetch, at most: the fastest compression."""
        with open(self.archive, "rb") as file, subprocess.Popen(
                ["gzip", "-1"], stdin=file, stdout=subprocess.PIPE) as child:
            return sum(len(part) for part in iter(lambda: child.stdout.read(1 << 20), b""))


class Box:
    """One container after the other in the same image; `folder` holds the bundle."""

    def __init__(self, image, folder):
        self.image = image
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def _config(self, args, user, read_only, tmpfs, mounts, cwd, env):
        (self.folder / "config.json").unlink(missing_ok=True)
        subprocess.run(["runc", "spec"], cwd=self.folder, check=True)
        config = json.loads((self.folder / "config.json").read_text())
        uid, _, gid = (user or self.image.config["User"]).partition(":")
        process = config["process"]
        process.update(
            terminal=False, args=args, cwd=cwd or self.image.config.get("WorkingDir") or "/",
            user={"uid": int(uid), "gid": int(gid or uid)}, rlimits=[], noNewPrivileges=True,
            env=self.image.config["Env"] + [f"{name}={value}" for name, value in (env or {}).items()])
        process["capabilities"] = {kind: [] for kind in process["capabilities"]}
        config["root"] = {"path": str(self.image.root), "readonly": read_only}
        config["hostname"] = "box"
        for path in tmpfs:
            config["mounts"].append({"destination": path, "type": "tmpfs", "source": "tmpfs",
                                     "options": ["nosuid", "nodev", "mode=1777"]})
        for source, path in (mounts or {}).items():
            config["mounts"].append({"destination": path, "type": "bind", "source": str(source), "options": ["bind", "rw"]})
        (self.folder / "config.json").write_text(json.dumps(config))

    def run(self, args, user=None, read_only=True, tmpfs=("/tmp",), mounts=None, cwd=None, env=None, timeout=60):
        """Runs the program to its end; returns the finished process, with both streams as texts."""
        self._config(args, user, read_only, tmpfs, mounts, cwd, env)
        name = f"horovod-box-{os.getpid()}-{next(_numbers)}"
        try:
            return subprocess.run(["runc", "run", name], cwd=self.folder, capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=timeout, check=False)
        finally:
            subprocess.run(["runc", "delete", "--force", name], capture_output=True, check=False)
