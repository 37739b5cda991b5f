"""The PodGroups of the gang schedulers that the operator knows: their definitions, and the one of a job."""
from conftest import ROOT
from kubeapi import ApiError, until

GANGS = {
    "volcano": {"api": "scheduling.volcano.sh/v1beta1", "scheduler": "volcano",
                "member": ("annotations", "scheduling.k8s.io/group-name")},
    "scheduler-plugins": {"api": "scheduling.x-k8s.io/v1alpha1", "scheduler": "scheduler-plugins-scheduler",
                          "member": ("labels", "scheduling.x-k8s.io/pod-group")},
}


def definition(gang):
    return ROOT / "tests/data/crds" / f"{gang}-podgroups.yaml"


def install(server, gang):
    server.kubectl("apply", "-f", str(definition(gang)))
    until(f"{gang}'s PodGroup is served", lambda: served(server, gang))


def served(server, gang):
    return server.kubectl("get", "--raw", f"/apis/{GANGS[gang]['api']}/podgroups", check=False).returncode == 0


def uninstall(server, gang):
    server.kubectl("delete", "--ignore-not-found", "-f", str(definition(gang)))
    until(f"{gang}'s PodGroup is gone", lambda: not served(server, gang))


def group_path(ns, gang, sub=""):
    return f"/apis/{GANGS[gang]['api']}/namespaces/{ns.name}/podgroups/digits{sub}"


def group(ns, gang):
    try:
        return ns.api.request("GET", group_path(ns, gang))
    except ApiError as error:
        assert error.code == 404
        return None


def patch_group(ns, gang, body, sub=""):
    return ns.api.request("PATCH", group_path(ns, gang, sub), body, "application/merge-patch+json")
