package test

import (
	"bytes"
	"debug/elf"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
)

var releaseArchs = flag.String("release.archs", runtime.GOARCH, "the processors that TestRelease builds for, as ARCHS of packaging/release.sh")

// TestRelease makes what is released: the binaries are static and for their processors, the
// one for this runs, the package has it with man pages, completions and the unit of the
// agent, the description of the image names files that are there, and the checksums are right.
// It releases for this processor, or for those of the flag -release.archs, because to compile
// all for another takes minutes. The short form compiles nothing (useBuilt).
func TestRelease(t *testing.T) {
	for _, tool := range []string{"dpkg-deb", "sha256sum", "gzip", "tar"} {
		if _, err := exec.LookPath(tool); err != nil {
			need.Skip(t, "%s: %v", tool, err)
		}
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "release")
	archs := strings.Fields(*releaseArchs)
	if !need.Full() {
		archs = []string{runtime.GOARCH}
		useBuilt(t)
	}
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "ARCHS="+strings.Join(archs, " "), "VERSION=v1.2.3", "SOURCE_DATE_EPOCH=1700000000")
		if strings.HasPrefix(name, "sha") {
			cmd.Dir = out
		}
		b, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, b)
		}
		return string(b)
	}
	run("../packaging/release.sh", out)
	run("sha256sum", "--check", "--strict", "SHA256SUMS")
	deb := filepath.Join(out, "bobnet_1.2.3_"+runtime.GOARCH+".deb")
	if fields := run("dpkg-deb", "--field", deb, "Package", "Version", "Architecture"); fields != "Package: bobnet\nVersion: 1.2.3\nArchitecture: "+runtime.GOARCH+"\n" {
		t.Errorf("the package says %q", fields)
	}
	root := filepath.Join(dir, "root")
	run("dpkg-deb", "--extract", deb, root)
	binary := filepath.Join(root, "usr/bin/bobnet")
	for _, file := range []string{
		"usr/share/man/man1/bobnet.1.gz", "usr/share/man/man1/bobnet-perf.1.gz", "usr/share/bash-completion/completions/bobnet",
		"usr/share/zsh/vendor-completions/_bobnet", "usr/share/fish/vendor_completions.d/bobnet.fish",
		"usr/share/man/man1/bobnet-agent.1.gz", "usr/lib/systemd/system/bobnet-agent.service", "etc/bobnet/agent.policy.example",
	} {
		if info, err := os.Stat(filepath.Join(root, file)); err != nil || info.Size() == 0 {
			t.Errorf("%s is missing or empty: %v", file, err)
		}
	}
	if said := run(binary, "version"); !strings.HasPrefix(said, "bobnet 1.2.3\n") {
		t.Errorf("it says %q", said)
	}
	releasedFor(t, out, archs)
	if need.Full() {
		binariesFor(t, out, archs)
	}
}

// useBuilt puts a go command into PATH that compiles nothing. If the version is stamped into the
// binary, the command writes a script that prints the version; otherwise it copies the binary that
// the other tests use.
func useBuilt(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	script := `#!/bin/sh
while [ $# -gt 0 ]; do
	case $1 in
	-o) out=$2 ;;
	*main.released=*) version=${1##*main.released=} ;;
	esac
	shift
done
[ -z "$version" ] && exec cp ` + filepath.Join(commands(t), "bobnet") + ` "$out"
printf '#!/bin/sh\necho bobnet %s\n' "$version" >"$out"
`
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// binariesFor wants static binaries of the processors in a folder.
func binariesFor(t *testing.T, out string, archs []string) {
	t.Helper()
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for _, arch := range archs {
		f, err := elf.Open(filepath.Join(out, "bobnet-linux-"+arch))
		if err != nil {
			t.Fatal(err)
		}
		if f.Machine != machines[arch] || slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
			t.Errorf("the binary for %s is for %v, or not static", arch, f.Machine)
		}
		f.Close()
	}
}

// releasedFor wants the packages of the processors in a folder, and the description of an image
// that has their binaries.
func releasedFor(t *testing.T, out string, archs []string) {
	t.Helper()
	image, err := os.ReadFile(filepath.Join(out, "Containerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range archs {
		if _, err := os.Stat(filepath.Join(out, "bobnet_1.2.3_"+arch+".deb")); err != nil {
			t.Error(err)
		}
		for line := range bytes.Lines(image) {
			if words := strings.Fields(string(line)); len(words) == 3 && words[0] == "COPY" {
				if _, err := os.Stat(filepath.Join(out, strings.ReplaceAll(words[1], "${ARCH}", arch))); err != nil {
					t.Errorf("the image of %s: %v", arch, err)
				}
			}
		}
	}
	if !bytes.Contains(image, []byte("\nCOPY bobnet-linux-${ARCH} /usr/bin/bobnet\n")) {
		t.Errorf("the image has no command:\n%s", image)
	}
}
