package launch

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/doctor"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestKeyFile: the ranks on all hosts are told the key file that was asked for, and no key that
// the environment has in place of it.
func TestKeyFile(t *testing.T) {
	t.Setenv(vipl.EnvKey, "another")
	const text = `echo "<$BOBNET_KEY_FILE><$BOBNET_KEY>"`
	want := strings.Repeat("</etc/a key><>\n", 4)
	for _, engine := range []string{"ssh", "hydra"} {
		c := config("sh", "-c", text)
		run := (*Config).Run
		if engine == "hydra" {
			var mpiexec string
			c, mpiexec = withHydra(t, "sh", "-c", text)
			run = func(c *Config, ctx context.Context) error { return c.Hydra(ctx, mpiexec) }
		}
		var out, errOut bytes.Buffer
		c.KeyFile, c.Stdout, c.Stderr = "/etc/a key", &out, &errOut
		if err := run(c, t.Context()); err != nil {
			t.Fatalf("%s: %v\n%s", engine, err, &errOut)
		}
		lines := ""
		for line := range strings.Lines(out.String()) {
			lines += line[strings.Index(line, "<"):]
		}
		if lines != want {
			t.Errorf("%s: the ranks have\n%s", engine, &out)
		}
	}
}

// TestKeyFileMissing: a host that cannot read the key file is named, with what to do.
func TestKeyFileMissing(t *testing.T) {
	inv := Look(version, &vipl.Config{Driver: "shm"}, "/nonexistent/key")
	findings := Judge(version, []Answer{{Host: Host{Name: "b"}, Inv: inv, Arrived: inv.Clock}})
	for _, f := range findings {
		if f.Level == doctor.Fail && strings.Contains(f.Found, "/nonexistent/key: no such file") && f.Fix == "scp -p /nonexistent/key b:/nonexistent/key" {
			return
		}
	}
	t.Errorf("%+v", findings)
}
