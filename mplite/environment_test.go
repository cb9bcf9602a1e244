package mplite_test

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestInitFromEnvironment: no variables mean a job of one; bad ones are named.
func TestInitFromEnvironment(t *testing.T) {
	t.Setenv(mplite.EnvSize, "")
	c, err := mplite.Init(bg, nil)
	check(t, err)
	if c.Rank() != 0 || c.Size() != 1 {
		t.Errorf("%v", c)
	}
	t.Setenv(mplite.EnvSize, "many")
	if _, err := mplite.Init(bg, nil); !contains(err, `BOBNET_SIZE is "many"`) {
		t.Error(err)
	}
	t.Setenv(mplite.EnvSize, "2")
	t.Setenv(mplite.EnvRank, "2")
	t.Setenv(mplite.EnvJob, "j")
	if _, err := mplite.Init(bg, nil); !contains(err, "rank 2 is not in 0..1") {
		t.Error(err)
	}
}

// TestConfigFromEnvironment: what a Config leaves zero comes from the environment,
// what it gives does not.
func TestConfigFromEnvironment(t *testing.T) {
	t.Setenv(mplite.EnvJob, "")
	t.Setenv(mplite.EnvSize, "3")
	t.Setenv(mplite.EnvRank, "7")
	t.Setenv(vipl.EnvTimeout, "soon")
	for _, tc := range []struct {
		cfg  mplite.Config
		says string // empty: a job of one
	}{
		{mplite.Config{}, `"soon" is no time`},
		{mplite.Config{Config: job.Config{Timeout: 1}}, "rank 7 is not in 0..2"},
		{mplite.Config{Config: job.Config{Timeout: 1, Rank: 5}}, "rank 5 is not in 0..2"},
		{mplite.Config{Config: job.Config{Timeout: 1, Rank: 2}}, "needs a name"},
		{mplite.Config{Config: job.Config{Timeout: 1, Size: 2}}, "needs a name"},
		{mplite.Config{Config: job.Config{Timeout: 1, Size: 1}}, ""},
	} {
		c, err := mplite.Init(bg, &tc.cfg)
		if tc.says != "" && !contains(err, tc.says) || tc.says == "" && (err != nil || c.Size() != 1) {
			t.Errorf("%+v: %v, %v, want %q", tc.cfg, c, err, tc.says)
		}
	}
	t.Setenv(mplite.EnvJob, strings.Repeat("j", 200))
	if _, err := mplite.Init(bg, &mplite.Config{Config: job.Config{Timeout: 1, Size: 2}}); !contains(err, "name has 200 bytes") {
		t.Errorf("the job's name was not read: %v", err)
	}
}

// envAlone makes the test binary a program that TestSaysAlone looks at.
const envAlone = "MPLITE_TEST_ALONE"

// TestSaysAlone: a process that nothing tells which job it belongs to says once
// that it is one by itself; not if its program or its environment gives a size.
func TestSaysAlone(t *testing.T) {
	if how := os.Getenv(envAlone); how != "" {
		for range 3 {
			var cfg *mplite.Config
			switch how {
			case "config":
				cfg = &mplite.Config{Config: job.Config{PeerTimeout: time.Second}}
			case "size":
				cfg = &mplite.Config{Config: job.Config{Size: 1}}
			}
			if _, err := mplite.Init(bg, cfg); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	bare := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "BOBNET_") })
	for _, tc := range []struct {
		how   string
		env   string
		lines int
	}{
		{"nil", mplite.EnvInterface + "=eth0", 1},
		{"config", "", 1},
		{"size", "", 0},
		{"nil", mplite.EnvSize + "=1", 0},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSaysAlone$")
		cmd.Env = append(bare, envAlone+"="+tc.how, tc.env, mplite.EnvRank+"=0")
		var out bytes.Buffer
		cmd.Stderr = &out
		if err := cmd.Run(); err != nil {
			t.Fatalf("%+v: %v\n%s", tc, err, &out)
		}
		if got := strings.Count(out.String(), "\n"); got != tc.lines || got == 1 && !strings.Contains(out.String(), mplite.EnvSize+" is not set") {
			t.Errorf("%+v: stderr has %d lines:\n%s", tc, got, &out)
		}
	}
}
