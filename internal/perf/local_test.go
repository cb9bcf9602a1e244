package perf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/need"
	"golang.org/x/sys/unix"
)

// halfEnv makes this test program a half, or one that is stuck if it is halfStuck.
const (
	halfEnv   = "PERF_TEST_HALF"
	halfStuck = "stuck"
)

var errNoLab error // why labs cannot be made

func TestMain(m *testing.M) {
	if os.Getenv(halfEnv) == halfStuck {
		unix.Pause()
		return
	}
	if os.Getenv(halfEnv) != "" {
		if err := RunHalf(context.Background(), nil); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	errNoLab = lab.ReexecIfNeeded()
	os.Exit(m.Run())
}

// local runs Local with this program as halves.
func local(t *testing.T, plan Plan, profiles Profiles) ([]Record, error) {
	t.Helper()
	return localHalves(t, plan, LocalConfig{Profiles: profiles}, "1")
}

// localHalves is local with halves that have kind in their environment.
func localHalves(t *testing.T, plan Plan, cfg LocalConfig, kind string) ([]Record, error) {
	t.Helper()
	if errors.Is(errNoLab, lab.ErrForbidden) {
		need.Skip(t, "CAP_SYS_ADMIN and CAP_NET_ADMIN: %v", errNoLab)
	} else if errNoLab != nil {
		t.Fatal(errNoLab)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Half, cfg.Log = []string{self}, slog.New(slog.DiscardHandler)
	cfg.Lab = func(*lab.Lab, [2]int) (env [2][]string, done func(), err error) {
		half := []string{halfEnv + "=" + kind}
		return [2][]string{half, half}, func() {}, nil
	}
	return Local(t.Context(), plan, cfg)
}

// TestLocal measures every stack in every way, briefly, and the other links and
// large frames a little.
func TestLocal(t *testing.T) {
	briefly := Plan{Rounds: 1, Sample: time.Millisecond}
	all, other, latency := briefly, briefly, briefly
	other.MTUs, other.Links = []int{9000, 65535}, []string{"packet", "udp"}
	other.Tests, other.Waits, other.Levels = []string{Bandwidth}, []string{Spin}, []string{"reception"}
	latency.Tests = []string{Latency}
	if !need.Full() {
		checkLocal(t, latency)
		return
	}
	all.Layers, other.Layers = Layers[:1], Layers[:1]
	checkLocal(t, all)
	checkLocal(t, other)
	checkLocal(t, Plan{Rounds: 1, Sample: time.Millisecond, Stacks: []string{"splitc"}, Tests: []string{Primitives, Bulk}, Sizes: []int{64}, Waits: []string{Spin}, Layers: Layers[:1]}) // TestSplitC has all layers
	checkLocal(t, Plan{Rounds: 1, Sample: time.Millisecond, Stacks: []string{"splitc", "mplite"}, Tests: []string{Barrier, LogP}, Waits: []string{Spin}})
	shm := briefly
	shm.Links, shm.Layers = []string{linkShm}, Layers[:1]
	shm.Tests, shm.Waits, shm.Levels = []string{Latency, Bandwidth}, []string{Spin}, []string{"reception"}
	checkLocal(t, shm)
}

// busyMachine reports whether all that an error of Local, a case on each line, says is that
// the machine was too busy to measure something: no sample had one state, or bursts were
// interrupted for so long that the gap between messages exceeds every delay of the sweep.
func busyMachine(err error) bool {
	for line := range strings.Lines(err.Error()) {
		if !strings.Contains(line, errNoSample.Error()) && !strings.Contains(line, errNoDelay.Error()) {
			return false
		}
	}
	return true
}

func checkLocal(t *testing.T, plan Plan) {
	t.Helper()
	records, err := local(t, plan, Profiles{})
	if err != nil && !busyMachine(err) {
		t.Error(err)
	}
	var want []Case
	for _, r := range plan.withDefaults().runs() {
		want = append(want, r.Cases(r.MTUs[0])...)
	}
	if len(want) < 8 {
		t.Fatalf("only %d cases", len(want))
	}
	for _, r := range records {
		i := slices.Index(want, r.Case)
		if i < 0 {
			t.Errorf("%v was not asked for, or is out of order", r.Case)
			continue
		}
		want = want[i+1:]
		checkRecord(t, r)
	}
	if len(records) == 0 {
		t.Error("nothing was measured")
	}
}

func checkRecord(t *testing.T, r Record) {
	t.Helper()
	latency := r.Min > 0 && r.P50 >= r.Min && r.P99 >= r.P50
	if r.Test == Primitives || r.Test == Bulk {
		if r.P50 <= 0 || r.Mbits <= 0 || r.Rate <= 0 {
			t.Errorf("%v: %v us, %v Mbit/s, %v /s", r.Case, r.P50, r.Mbits, r.Rate)
		}
		return
	}
	bulk := r.Test == Bandwidth || r.Test == Bidirectional || r.Test == Write
	if latency != timed(r.Test) || r.Mbits > 0 != bulk || r.Rate > 0 != (r.Test == Rate) {
		t.Errorf("%v: min %v, median %v, p99 %v, %v Mbit/s, %v /s", r.Case, r.Min, r.P50, r.P99, r.Mbits, r.Rate)
	}
	if (r.LogP != nil) != (r.Test == LogP) {
		t.Errorf("%v: LogP is %+v", r.Case, r.LogP)
	}
	if r.Count < minMessages {
		t.Errorf("%v: only %d messages", r.Case, r.Count)
	}
}

func TestLocalWritesProfiles(t *testing.T) {
	dir := t.TempDir()
	profiles := Profiles{CPU: filepath.Join(dir, "cpu.pprof"), Memory: filepath.Join(dir, "mem.pprof")}
	plan := Plan{Stacks: []string{"tcp"}, Tests: []string{Latency}, Rounds: 1, Sample: time.Millisecond}
	if _, err := local(t, plan, profiles); err != nil && !busyMachine(err) {
		t.Fatal(err)
	}
	for _, name := range []string{"cpu.pprof", "cpu-server.pprof", "mem.pprof", "mem-server.pprof"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v, %+v", name, err, info)
		}
	}
}

func TestLocalStops(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if _, err := Local(ctx, Plan{}, LocalConfig{Half: []string{"true"}, Log: slog.New(slog.DiscardHandler)}); !errors.Is(err, enough) {
		t.Errorf("error %v, want the cause of the cancellation", err)
	}
	if _, err := Local(t.Context(), Plan{Tests: []string{"jitter"}}, LocalConfig{}); !errors.Is(err, ErrPlan) {
		t.Errorf("error %v, want ErrPlan", err)
	}
}

// TestLocalStuck: halves that say nothing for longer than anything takes are ended, and the
// error says so.
func TestLocalStuck(t *testing.T) {
	_, err := localHalves(t, Plan{Stacks: []string{"tcp"}}, LocalConfig{patience: 100 * time.Millisecond}, halfStuck)
	if !errors.Is(err, errSilent) {
		t.Errorf("%v, want %v", err, errSilent)
	}
}
