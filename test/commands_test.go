package test

import (
	"context"
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// commandTests names the test that runs each command in README.md and docs/guide.md: "folder Test" or
// "folder script.txtar". Where the documents have example values (hosts, addresses, sizes), a test uses
// its own. "-" marks a command that no test can run; notRun has the reason. TestQuotedReference runs
// the commands "go doc".
var commandTests = map[string]string{
	"go run ./cmd/bobnet demo": "cmd/bobnet/testdata/perf demo.txtar",
	"go test ./...":            "-",

	"go install github.com/bobnet-go/bobnet/cmd/bobnet@latest":       "-",
	"go get github.com/bobnet-go/bobnet@latest":                      "-",
	"go mod init hello && go get github.com/bobnet-go/bobnet@latest": "-",
	"go install": "-",
	"go get":     "-",

	"go build -o hello . && bobnet lab -n 2 -- ./hello":                           "test TestReadmePrograms",
	"go build -o prog . && bobnet lab -n 2 -- ./prog":                             "test TestReadmePrograms",
	"go build -o bobnet ./cmd/bobnet && go build -o hello/hello ./hello":          "test TestReadmePrograms",
	"./bobnet lab -n 2 -- ./hello/hello":                                          "test TestReadmePrograms",
	"go build -o prog/prog ./prog && go run ./cmd/bobnet lab -n 2 -- ./prog/prog": "test TestReadmePrograms",
	"go test ./internal/conformance -run Conformance -v":                          "internal/conformance TestConformance",
	"make release": "test TestRelease",
	"sudo apt install ./out/release/bobnet_*_amd64.deb": "test TestRelease",

	"go build -o heat ./examples/heat":                          "test TestExamples",
	"scp heat a: && scp heat b:":                                "-",
	`printf 'a\nb:4\n' >hosts.txt`:                              "test TestRunOverSSH",
	"bobnet run -n 5 --hosts hosts.txt --iface eth1 -- ./heat":  "test TestRunOverSSH",
	"bobnet run -n 16 --hosts hosts.txt --iface eth1 -- ./heat": "test TestRunOverSSH",
	"bobnet run -n 2 --host HOST1,HOST2 -- ./prog":              "test TestRunOverSSH",
	"bobnet run -n N -- CMD":                                    "test TestRunHere",
	"bobnet run":                                                "test TestRunHere",
	"bobnet doctor --hosts hosts.txt":                           "test TestRunOverSSH",
	"bobnet doctor --host HOST1,HOST2":                          "test TestRunOverSSH",
	"bobnet doctor":                                             "cmd/bobnet/testdata/lab doctor.txtar",
	"mpirun":                                                    "-",
	"mpirun -n 4 barrier":                                       "-",
	"srun --mpi=pmi2":                                           "test TestSlurm",
	"srun":                                                      "test TestSlurm",

	"bobnet demo":                        "cmd/bobnet/testdata/perf demo.txtar",
	"bobnet lab -n N -- CMD":             "cmd/bobnet/testdata/lab lab.txtar",
	"bobnet lab":                         "cmd/bobnet/testdata/lab lab.txtar",
	"bobnet perf --local":                "cmd/bobnet/testdata/perf perf.txtar",
	"bobnet perf --curve":                "cmd/bobnet/testdata/perf curve.txtar",
	"bobnet perf --collectives":          "cmd/bobnet/testdata/perf collectives.txtar",
	"bobnet perf --apps":                 "cmd/bobnet/testdata/perf perf.txtar",
	"bobnet key":                         "cmd/bobnet/testdata/usage key.txtar",
	"bobnet ping ADDR":                   "cmd/bobnet/testdata/perf ping.txtar",
	"bobnet map":                         "cmd/bobnet/testdata/usage map.txtar",
	"bobnet paper":                       "cmd/bobnet/testdata/usage paper.txtar",
	"bobnet info":                        "cmd/bobnet/testdata/lab info.txtar",
	"bobnet daemon":                      "test TestVMMCUsers",
	"bobnet agent":                       "cmd/bobnet TestAgent",
	"bobnet card":                        "cmd/bobnet TestCardUsers",
	"bobnet card --iface IFACE":          "cmd/bobnet TestCardUsers",
	"bobnet tun":                         "test TestTunVerb",
	"bobnet top":                         "cmd/bobnet/testdata/usage top.txtar",
	"bobnet rpcgen":                      "cmd/bobnet/testdata/usage rpcgen.txtar",
	"bobnet rpcgen FILE.x":               "cmd/bobnet/testdata/usage rpcgen.txtar",
	"bobnet version":                     "cmd/bobnet/testdata/usage run.txtar",
	"bobnet help tun":                    "cmd/bobnet TestManPages",
	"bobnet help switch":                 "cmd/bobnet TestManPages",
	"bobnet agent --allow user:NAME":     "cmd/bobnet TestAgent",
	"bobnet switch --port IFACE ...":     "cmd/bobnet TestSwitch",
	"bobnet tun --addr 10.9.0.1/24":      "test TestTunVerb",
	"sudo bobnet tun --addr 10.9.0.1/24": "test TestTunVerb",
	"ssh 10.9.0.2":                       "stream/tun TestSSH",
	"bobnet perf --curve --mtu 1500 --plot curve.png": "cmd/bobnet/testdata/perf curve.txtar",
	"setcap cap_net_raw=ep PROGRAM":                   "cmd/bobnet TestSetcap",
	"ethtool -K IF tso off":                           "-",
}

// notRun tells why no test runs a command.
var notRun = map[string]string{
	"go test ./...": "it is the whole of the tests",
	"go install github.com/bobnet-go/bobnet/cmd/bobnet@latest":       "it needs a published version",
	"go get github.com/bobnet-go/bobnet@latest":                      "it needs a published version",
	"go mod init hello && go get github.com/bobnet-go/bobnet@latest": "it needs a published version",
	"go install":                 "it needs a published version",
	"go get":                     "it needs a published version",
	"scp heat a: && scp heat b:": "it runs nothing of Bobnet; the test's namespaces share the file system",
	"mpirun":                     "it is named in a table; see the next",
	"mpirun -n 4 barrier":        "the guide says that it was tested by hand",
	"ethtool -K IF tso off":      "it changes a network card of the host",
}

// quotedCommands returns the commands in README.md and docs/guide.md: indented lines, and code spans
// that start with a program's name.
func quotedCommands(t *testing.T) (commands []string) {
	t.Helper()
	text := readRoot(t, "README.md") + readRoot(t, filepath.Join("docs", "guide.md"))
	text = regexp.MustCompile("(?s)\n```.*?\n```").ReplaceAllString(text, "")
	line := regexp.MustCompile(`(?m)^    (\S.*?)(?:  +#.*)?$`)
	span := regexp.MustCompile("`((?:sudo |\\./)?(?:bobnet|go|make|setcap|ssh|scp|apt|mpirun|srun|ethtool)(?: [^`]+)?)`")
	for _, pattern := range []*regexp.Regexp{line, span} {
		for _, m := range pattern.FindAllStringSubmatch(text, -1) {
			// A code span may go on in the next line of the document.
			commands = append(commands, strings.Join(strings.Fields(strings.ReplaceAll(m[1], "   #", " #")), " "))
		}
	}
	slices.Sort(commands)
	return slices.Compact(commands)
}

// TestQuotedCommands: every command in README.md and docs/guide.md is run by a test that exists, or
// has a reason why none can run it.
func TestQuotedCommands(t *testing.T) {
	tests := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test && f.Recv == nil {
				tests[s.dir+" "+f.Name.Name] = true
			}
		}
	}
	quoted := quotedCommands(t)
	for _, command := range quoted {
		name := commandTests[command]
		dir, base, _ := strings.Cut(name, " ")
		switch {
		case strings.HasPrefix(command, "go doc ") || command == "go doc" || command == "go generate":
		case name == "":
			t.Errorf("%q is in README.md or docs/guide.md: name the test that runs it in commandTests", command)
		case name == "-":
			if notRun[command] == "" {
				t.Errorf("%q: say in notRun why no test runs it", command)
			}
		case strings.HasSuffix(base, ".txtar"):
			if _, err := os.Stat(filepath.Join(root, dir, base)); err != nil {
				t.Errorf("%q: there is no script %s in %s", command, base, dir)
			}
		case !tests[name]:
			t.Errorf("%q: there is no test %s in %s", command, base, dir)
		}
	}
	for command := range commandTests {
		if !slices.Contains(quoted, command) {
			t.Errorf("%q is not in README.md or docs/guide.md any more: remove it from commandTests", command)
		}
	}
}

// TestQuotedReference runs the commands "go doc" of README.md and docs/guide.md. It replaces this module's path by
// the directory, because nothing of the network may be needed.
func TestQuotedReference(t *testing.T) {
	for _, command := range quotedCommands(t) {
		args := strings.Fields(command)
		if !strings.HasPrefix(command, "go doc ") {
			continue
		}
		t.Run(args[2], func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			// Go looks for a full path in all modules that go.mod mentions, and fetches those that it lacks.
			if name, full := strings.CutPrefix(args[2], "github.com/bobnet-go/bobnet/"); full {
				args[2] = "./" + name
			}
			cmd := exec.CommandContext(ctx, args[0], args[1:]...)
			cmd.Dir = root
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", command, err, out)
			}
		})
	}
}
