package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/vipl"
	"go.yaml.in/yaml/v3"
)

// manifest is an object of Kubernetes: what this test reads of it.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Mode         string `yaml:"completionMode"`
		Completions  int
		Parallelism  int
		BackoffLimit int `yaml:"backoffLimit"`
		Template     struct{ Spec podSpec }
	}
}

type podSpec struct {
	RestartPolicy string `yaml:"restartPolicy"`
	Subdomain     string
	Init          []container `yaml:"initContainers"`
	Containers    []container
}

type container struct {
	Command []string
	Env     []struct {
		Name, Value string
		From        struct {
			Field struct {
				Path string `yaml:"fieldPath"`
			} `yaml:"fieldRef"`
		} `yaml:"valueFrom"`
	}
	Security struct {
		Capabilities struct{ Add []string }
	} `yaml:"securityContext"`
}

// jobUID is what the pods have as the label that names their Job.
const jobUID = "7f9c1c1e-0a3b-4c57-9a0d-2f1d7f3e8b11"

// TestManifests runs the Jobs of docs/kubernetes.md: their pods are processes in namespaces,
// which find what the manifest and Kubernetes set, and the host's name that it gives them.
func TestManifests(t *testing.T) {
	needLab(t)
	text, err := os.ReadFile(filepath.Join(root, "docs/kubernetes.md"))
	if err != nil {
		t.Fatal(err)
	}
	jobs := 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1) {
		for decoder := yaml.NewDecoder(bytes.NewReader(block[1])); ; {
			var m manifest
			if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if m.Kind == "Job" {
				jobs++
				t.Run(fmt.Sprint(jobs), func(t *testing.T) { runManifest(t, &m) })
			}
		}
	}
	if jobs != 2 {
		t.Errorf("docs/kubernetes.md has %d Jobs", jobs)
	}
}

// runManifest runs a Job.
func runManifest(t *testing.T, m *manifest) {
	s, pod := &m.Spec, &m.Spec.Template.Spec
	if s.Mode != "Indexed" || s.Completions != s.Parallelism || s.BackoffLimit != 0 || pod.RestartPolicy != "Never" || len(pod.Containers) != 1 {
		t.Fatalf("%+v", m)
	}
	c := &pod.Containers[0]
	env, udp := containerEnv(t, c)
	if env[job.EnvSize] != strconv.Itoa(s.Parallelism) || !udp && strings.Join(c.Security.Capabilities.Add, " ") != "NET_RAW IPC_LOCK" {
		t.Fatalf("%v, capabilities %v", env, c.Security.Capabilities.Add)
	}
	l := newLab(t, lab.Config{N: s.Completions})
	peers := t.TempDir()
	for i := range pod.Init {
		runInit(t, l, m, pod.Init[i].Command, peers)
	}
	const start = `
		export JOB_COMPLETION_INDEX=$BOBNET_RANK
		unset BOBNET_RANK BOBNET_SIZE BOBNET_JOB BOBNET_IFACE
		name=$0-$JOB_COMPLETION_INDEX
		hostname $name 2>/dev/null || echo $name >/proc/sys/kernel/hostname
		exec env "$@"`
	argv := []string{"unshare", "--uts", "sh", "-c", start, m.Metadata.Name}
	for name, value := range env {
		argv = append(argv, name+"="+value)
	}
	paths := strings.NewReplacer("/heat", filepath.Join(commands(t), "heat"), "/peers", peers)
	for _, word := range c.Command {
		argv = append(argv, paths.Replace(word))
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var said bytes.Buffer
	if err := l.Run(ctx, argv, lab.RunOptions{Stdout: &said, Stderr: &said}); err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	if text := said.String(); !strings.Contains(text, "in 2x2 blocks, one a rank") || !strings.Contains(text, "gives the same, bit for bit") {
		t.Errorf("the pods said\n%s", &said)
	}
}

// containerEnv returns the variables of a container, and whether it uses UDP. What another
// interface is called there, is the lab's here.
func containerEnv(t *testing.T, c *container) (env map[string]string, udp bool) {
	env = make(map[string]string)
	for _, v := range c.Env {
		env[v.Name] = v.Value
		switch path := v.From.Field.Path; path {
		case "":
		case "metadata.labels['batch.kubernetes.io/controller-uid']":
			env[v.Name] = jobUID
		default:
			t.Fatalf("%s is from %s", v.Name, path)
		}
	}
	udp = env[vipl.EnvDriver] == "udp"
	if (env[vipl.EnvInterface] == "net1") == udp {
		t.Fatalf("variables %v", env)
	}
	if !udp {
		env[vipl.EnvInterface] = lab.Interface
	}
	return env, udp
}

// runInit runs an init container that looks up the pods' addresses by the names that they have from
// their headless Service, with a getent that knows these.
func runInit(t *testing.T, l *lab.Lab, m *manifest, command []string, peers string) {
	getent := "#!/bin/sh\ncase \"$1 $2\" in\n"
	for i := range l.Size() {
		getent += fmt.Sprintf("'hosts %s-%d.%s') echo '%v    alias';;\n", m.Metadata.Name, i, m.Spec.Template.Spec.Subdomain, l.Addr(i))
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "getent"), []byte(getent+"*) exit 2;;\nesac\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var argv []string
	for _, word := range command {
		argv = append(argv, strings.ReplaceAll(word, "/peers", peers))
	}
	if out, code := in(t, l, 0, []string{"PATH=" + bin + ":" + os.Getenv("PATH")}, argv...); code != 0 {
		t.Fatalf("the init container ends with %d: %s", code, out)
	}
}
