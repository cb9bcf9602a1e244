package test

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
)

// TestRelease makes what is released: the binaries are static and for their processors, the
// one for this runs, the package has it with man pages, completions and the unit of the
// agent, the description of the image names files that are there, and the checksums are right.
func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: it builds the command three times")
	}
	for _, tool := range []string{"dpkg-deb", "sha256sum", "gzip", "tar"} {
		if _, err := exec.LookPath(tool); err != nil {
			need.Skip(t, "%s: %v", tool, err)
		}
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "release")
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "ARCHS=amd64 arm64", "VERSION=v1.2.3", "SOURCE_DATE_EPOCH=1700000000")
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
	if said := run(binary, "version"); !strings.HasPrefix(said, "bobnet v1.2.3\n") {
		t.Errorf("it says %q", said)
	}
	releasedFor(t, out)
}

// releasedFor wants the binaries and packages of both processors in a folder, and the
// description of an image that has them.
func releasedFor(t *testing.T, out string) {
	t.Helper()
	image, err := os.ReadFile(filepath.Join(out, "Containerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		f, err := elf.Open(filepath.Join(out, "bobnet-linux-"+arch))
		if err != nil {
			t.Fatal(err)
		}
		if f.Machine != machine || slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
			t.Errorf("the binary for %s is for %v, or not static", arch, f.Machine)
		}
		f.Close()
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
