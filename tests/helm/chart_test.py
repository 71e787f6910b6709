#!/usr/bin/env python3
"""Checks the Helm chart, rendered by templates.py (and by Helm, where it is installed).

Each value must be in the schema and be used, unknown values must be refused, and `troupe node` must be
able to read the cluster file in the chart.

  TROUPE=build/deploy/troupe tests/helm/chart_test.py
"""
import copy
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
try:
    import yaml
except ImportError:
    print("skipped: no python3-yaml")
    sys.exit(77)
from templates import Renderer, TemplateError

CHART = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "helm" / "troupe"
TROUPE = os.environ.get("TROUPE", "")
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
OPTIONAL = {"settings.http", "settings.http.tls_certificate", "settings.http.api_keys"}
FILES = {path.name: path.read_text() for path in sorted((CHART / "templates").iterdir())}


def find_fault(value, schema, where="values"):
    """Returns what violates the schema, as far as this schema goes; "" = nothing."""
    if "$ref" in schema:
        schema = SCHEMA["definitions"][schema["$ref"].rsplit("/", 1)[1]]
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    kind = kinds[schema["type"]]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        return f"{where} is {value!r}; expected {schema['type']}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} is {value!r}; expected one of {schema['enum']}"
    if (
        kind is str
        and len(value) < schema.get("minLength", 0)
        or kind is int
        and value < schema.get("minimum", value)
    ):
        return f"{where} is {value!r}, which is below the minimum"
    if kind is list:
        return next(
            filter(None, (find_fault(one, schema["items"], f"{where}[{i}]") for i, one in enumerate(value))),
            "",
        )
    if kind is not dict:
        return ""
    known = schema.get("properties", {})
    missing = [name for name in schema.get("required", []) if name not in value]
    unknown = (
        [name for name in value if name not in known] if schema.get("additionalProperties") is False else []
    )
    if missing or unknown:
        return f"{where}: {missing} are missing, {unknown} are unknown"
    return next(
        filter(
            None, (find_fault(value[name], known[name], f"{where}.{name}") for name in value if name in known)
        ),
        "",
    )


def documents(values, release="shop"):
    renderer = Renderer(FILES, values, release)
    found = []
    for name in FILES:
        if name.endswith(".yaml"):
            found += [one for one in yaml.safe_load_all(renderer.file(name)) if one]
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


class Chart(unittest.TestCase):
    def with_values(self, **changes):
        values = copy.deepcopy(VALUES)
        for path, value in changes.items():
            *way, last = path.split("__")
            at = values
            for part in way:
                at = at[part.replace("_", "-")] if part.replace("_", "-") in at else at[part]
            at[last] = value
        return values

    def test_values_match_the_schema_and_unknown_ones_are_refused(self):
        self.assertEqual(find_fault(VALUES, SCHEMA), "")
        for change in (
            {"image__tag": ""},
            {"service__type": "Any"},
            {"nodes__worker__replicas": 0},
            {"nodes__worker__more": 1},
            {"unknown": 1},
            {"networkPolicy": "yes"},
            {"secrets": [1]},
            {"gracePeriodSeconds": True},
        ):
            self.assertNotEqual(find_fault(self.with_values(**change), SCHEMA), "", change)
        lacking = copy.deepcopy(VALUES)
        del lacking["settings"]["cluster"]["coordination"]
        self.assertIn("coordination", find_fault(lacking, SCHEMA))

    def test_templates_use_every_value_and_no_other(self):
        text = "\n".join(FILES.values())
        used = {match.rstrip(".") for match in re.findall(r"\.Values\.([A-Za-z._]+)", text)}
        for name in used - OPTIONAL:  # optional values
            at = VALUES
            for part in name.split("."):
                self.assertIn(part, at, name)
                at = at[part]
        for name in VALUES:
            self.assertTrue(
                any(one == name or one.startswith(name + ".") for one in used),
                f"{name} is used by no template",
            )
        for role in VALUES["nodes"].values():
            for part in role:
                self.assertIn(f"$of.{part}", text)

    def test_references_between_objects_resolve(self):
        found = documents(VALUES)
        self.assertEqual(len(found), 1 + 3 * 2 + 2 + 2)
        service = found["Service", "shop-nodes"]
        config = yaml.safe_load(found["ConfigMap", "shop-cluster"]["data"]["cluster.yaml"])
        names = [node["name"] for node in config["nodes"]]
        numbers = [node["node"] for node in config["nodes"]]
        self.assertEqual(len(set(names)), sum(role["replicas"] for role in VALUES["nodes"].values()))
        self.assertEqual(len(set(numbers)), len(numbers))
        for role, of in VALUES["nodes"].items():
            one = found["StatefulSet", f"shop-{role}"]
            pod = one["spec"]["template"]
            self.assertEqual(one["spec"]["replicas"], of["replicas"])
            self.assertEqual(
                {f"shop-{role}-{i}" for i in range(of["replicas"])},
                {n for n in names if n.startswith(f"shop-{role}-")},
            )
            for selector in (
                one["spec"]["selector"]["matchLabels"],
                service["spec"]["selector"],
                found["PodDisruptionBudget", f"shop-{role}"]["spec"]["selector"]["matchLabels"],
            ):
                self.assertLessEqual(selector.items(), pod["metadata"]["labels"].items())
            self.assertEqual(one["spec"]["serviceName"], "shop-nodes")
            volumes = {volume["name"] for volume in pod["spec"]["volumes"]} | {
                c["metadata"]["name"] for c in one["spec"].get("volumeClaimTemplates", [])
            }
            for container in pod["spec"]["containers"] + pod["spec"]["initContainers"]:
                self.assertLessEqual({mount["name"] for mount in container["volumeMounts"]}, volumes)
                self.assertFalse(container["securityContext"]["allowPrivilegeEscalation"])
            ports = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
            self.assertIn(found["Service", "shop"]["spec"]["ports"][0]["targetPort"], ports)
            self.assertEqual("volumeClaimTemplates" in one["spec"], bool(of["storage"]))

    def test_the_values_for_gpus_give_workers_alone_a_gpu(self):
        def merged(base, over):
            both = isinstance(base, dict) and isinstance(over, dict)
            return {k: merged(base.get(k), over.get(k, base.get(k))) for k in base | over} if both else over

        values = merged(VALUES, yaml.safe_load((CHART / "values-gpu.yaml").read_text()))
        self.assertEqual(find_fault(values, SCHEMA), "")
        found = documents(values)
        for role in VALUES["nodes"]:
            pod = found["StatefulSet", f"shop-{role}"]["spec"]["template"]["spec"]
            limits = pod["containers"][0]["resources"]["limits"]
            self.assertEqual(limits.get("nvidia.com/gpu"), 1 if role == "worker" else None)
            self.assertEqual(pod.get("runtimeClassName"), "nvidia" if role == "worker" else None)
            self.assertEqual("tolerations" in pod, role == "worker")
            self.assertTrue(pod["containers"][0]["image"].endswith("-cuda"))
        config = yaml.safe_load(found["ConfigMap", "shop-cluster"]["data"]["cluster.yaml"])
        self.assertEqual(config["model"]["device"], "cuda:0")
        self.assertEqual(config["model"]["directory"], VALUES["settings"]["model"]["directory"])

    def test_pods_restart_when_the_cluster_file_changes_and_secrets_are_mounted(self):
        digest = lambda values: documents(values)["StatefulSet", "shop-router"]["spec"]["template"][
            "metadata"
        ]["annotations"]["cluster-file"]
        self.assertEqual(digest(VALUES), digest(self.with_values(service__port=81)))
        self.assertNotEqual(digest(VALUES), digest(self.with_values(nodes__worker__replicas=5)))
        pod = documents(self.with_values(secrets=["keys"]))["StatefulSet", "shop-router"]["spec"]["template"][
            "spec"
        ]
        self.assertIn(
            "/run/troupe/secrets/keys", [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]]
        )
        self.assertIn("keys", [volume.get("secret", {}).get("secretName") for volume in pod["volumes"]])
        self.assertNotIn(("NetworkPolicy", "shop-door"), documents(self.with_values(networkPolicy=False)))

    def test_variables_are_given_to_the_nodes_alone(self):
        variable = {"name": "TROUPE_POOL_MEMORY", "value": "1GiB"}
        pod = documents(self.with_values(env=[variable]))["StatefulSet", "shop-worker"]["spec"]["template"][
            "spec"
        ]
        self.assertEqual([one["name"] for one in pod["containers"][0]["env"]], ["NAME", "TROUPE_POOL_MEMORY"])
        self.assertIn(variable, pod["containers"][0]["env"])
        self.assertEqual([one["name"] for one in pod["initContainers"][0]["env"]], ["NAME"])
        self.assertFalse(pod["enableServiceLinks"])

    def test_probes_use_the_port_and_scheme_of_the_http_server(self):
        def http_and_probes(http):
            found = documents(self.with_values(settings__http=http))
            rendered = yaml.safe_load(found["ConfigMap", "shop-cluster"]["data"]["cluster.yaml"])["http"]
            pods = [
                found["StatefulSet", f"shop-{role}"]["spec"]["template"]["spec"]["containers"][0]
                for role in VALUES["nodes"]
            ]
            return rendered, [
                pod[probe]["httpGet"]
                for pod in pods
                for probe in ("startupProbe", "livenessProbe", "readinessProbe")
            ]

        place, keys = {"address": "0.0.0.0", "port": 8080}, {
            "api_keys": "/run/troupe/secrets/keys/keys.jsonl"
        }
        files = {
            "tls_certificate": "/run/troupe/secrets/door/tls.crt",
            "tls_key": "/run/troupe/secrets/door/tls.key",
        }
        for http in ({}, keys, files, {**keys, **files}):
            rendered, probes = http_and_probes(http)
            self.assertEqual(rendered, {**place, **http})
            for probe in probes:
                self.assertEqual(probe["port"], "http")
                self.assertEqual(
                    probe.get("scheme", "HTTP"), "HTTPS" if "tls_certificate" in http else "HTTP"
                )

    def test_the_monitor_finds_the_nodes_and_has_the_key_that_servers_require(self):
        def monitor(http=None, **values):
            monitoring = {**VALUES["monitoring"], "serviceMonitor": True, **values}
            found = documents(self.with_values(monitoring=monitoring, settings__http=http or {}))
            return found, found["ServiceMonitor", "shop"]["spec"]["endpoints"][0]

        keys = {"api_keys": "/run/troupe/secrets/keys/keys.jsonl"}
        tls = {"tls_certificate": "/run/troupe/secrets/door/tls.crt"}
        self.assertNotIn(("ServiceMonitor", "shop"), documents(VALUES))
        found, plain = monitor()
        self.assertNotIn("authorization", plain)
        labels = found["Service", "shop-nodes"]["metadata"]["labels"]
        wanted = found["ServiceMonitor", "shop"]["spec"]["selector"]["matchLabels"]
        self.assertLessEqual(wanted.items(), labels.items())
        self.assertEqual(labels[found["ServiceMonitor", "shop"]["spec"]["jobLabel"]], "troupe")
        self.assertIn(
            plain["port"], [port["name"] for port in found["Service", "shop-nodes"]["spec"]["ports"]]
        )
        with self.assertRaisesRegex(TemplateError, "monitoring.scrapeKeySecret is missing"):
            monitor(keys)
        _, keyed = monitor({**keys, **tls}, scrapeKeySecret="scrape", tlsConfig={"serverName": "shop"})
        self.assertEqual(keyed["authorization"], {"credentials": {"name": "scrape", "key": "key"}})
        self.assertEqual((keyed["scheme"], keyed["tlsConfig"]), ("https", {"serverName": "shop"}))

    def test_every_shipped_monitor_sends_the_scrapers_key(self):
        folder = CHART.parent.parent / "monitoring"
        read = lambda name: yaml.safe_load((folder / name).read_text())
        secret = read("service-monitor.yaml")["spec"]["endpoints"][0]["authorization"]["credentials"]
        made = read("kustomization.yaml")["secretGenerator"][0]
        self.assertEqual(secret["name"], made["name"])
        self.assertIn(secret["key"], [literal.partition("=")[0] for literal in made["literals"]])
        scrape = read("prometheus.yaml")["scrape_configs"][0]
        self.assertEqual(scrape["job_name"], "troupe")
        self.assertIn("credentials_file", scrape["authorization"])

    def test_kustomize_and_helm_run_the_same_pods(self):
        """Their pods may differ in names, images and values only."""
        mine = documents(VALUES, "x")
        for role, file in (("router", "routers"), ("cache-meta", "cache-metas"), ("worker", "workers")):
            text = (CHART.parent.parent / "kubernetes" / f"{file}.yaml").read_text()
            theirs = next(one for one in yaml.safe_load_all(text) if one["kind"] == "StatefulSet")["spec"][
                "template"
            ]["spec"]
            pod = mine["StatefulSet", f"x-{role}"]["spec"]["template"]["spec"]
            for container, other in zip(
                pod["containers"] + pod["initContainers"], theirs["containers"] + theirs["initContainers"]
            ):
                container.pop("imagePullPolicy")
                self.assertEqual(container, other)
            for part in (
                "terminationGracePeriodSeconds",
                "securityContext",
                "automountServiceAccountToken",
                "enableServiceLinks",
            ):
                self.assertEqual(pod[part], theirs[part])

    @unittest.skipUnless(TROUPE, "TROUPE is not set")
    def test_a_node_reads_the_clusters_file(self):
        """Checks that the program reads the file: its error is then that the model is missing."""
        text = documents(VALUES)["ConfigMap", "shop-cluster"]["data"]["cluster.yaml"].replace(
            "certificates: /run/troupe/certificates", 'certificates: ""'
        )
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "cluster.yaml")
            path.write_text(text)
            done = subprocess.run(
                [TROUPE, "node", "--config", path, "--name", "shop-worker-3"],
                capture_output=True,
                text=True,
                timeout=60,
            )
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/srv/troupe/model", done.stderr)

    @unittest.skipUnless(shutil.which("helm"), "no Helm on this machine")
    def test_helm_renders_the_same(self):
        done = subprocess.run(["helm", "template", "shop", CHART], capture_output=True, text=True, check=True)
        theirs = {
            (one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(done.stdout) if one
        }
        self.assertEqual(theirs, documents(VALUES))


class Templates(unittest.TestCase):
    def render(self, text, values=None):
        return Renderer({"t": text}, values or {}, "r").file("t")

    def test_white_space_scopes_and_pipelines(self):
        self.assertEqual(self.render('a {{- "b" -}}  c'), "abc")
        self.assertEqual(
            self.render(
                "{{ range $k, $v := .Values }}{{ $k }}={{ $v.n | int }};{{ end }}",
                {"b": {"n": 2}, "a": {"n": 1}},
            ),
            "a=1;b=2;",
        )
        self.assertEqual(
            self.render(
                '{{ if eq .Values.x "y" }}1{{ else }}2{{ end }}{{ if not .Values.z }}3{{ end }}', {"x": "n"}
            ),
            "23",
        )
        self.assertEqual(
            self.render(
                '{{ define "d" }}<{{ .a }}>{{ end }}{{ include "d" (dict "a" (add 1 2)) | replace "3" "4" }}'
            ),
            "<4>",
        )

    def test_unsupported_syntax_is_an_error(self):
        for bad in (
            "{{ end }}",
            "{{ if .Values }}",
            "{{ nosuch 1 }}",
            '{{ include "nosuch" . }}',
            "{{ $x }}",
            "{{ .Values.a.b }}",
        ):
            with self.assertRaises(TemplateError, msg=bad):
                self.render(bad, {"a": "text"})


if __name__ == "__main__":
    unittest.main()
