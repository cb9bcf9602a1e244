package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// errNoLab says why the tests that need a lab are skipped.
var errNoLab error

func TestMain(m *testing.M) {
	// The scripts run this program under the name bobnet, and TestCardUsers also as rpcuser.
	if name := filepath.Base(os.Args[0]); name != "bobnet" && name != "rpcuser" {
		errNoLab = lab.ReexecIfNeeded()
	}
	testscript.Main(m, map[string]func(){"bobnet": main, "rpcuser": rpcUser})
}

// needLab skips the test where the system forbids labs.
func needLab(t *testing.T) {
	t.Helper()
	if errNoLab == nil {
		return
	}
	if !errors.Is(errNoLab, lab.ErrForbidden) {
		t.Fatal(errNoLab)
	}
	need.Skip(t, "CAP_SYS_ADMIN and CAP_NET_ADMIN: %v", errNoLab)
}

func TestLabScripts(t *testing.T) {
	needLab(t)
	testscript.Run(t, testscript.Params{Dir: "testdata/lab"})
}

func TestUsageScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/usage"})
}

func TestExitCode(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("whatever"), 1},
		{usageError{errors.New("wrong flag")}, 2},
		{fmt.Errorf("reading: %w", fs.ErrNotExist), 1},
		{fmt.Errorf("lab: %w", &lab.ExitError{Rank: 1, Code: 137}), 137},
		{fmt.Errorf("stopped: %w", interrupted(unix.SIGINT)), 130},
		{fmt.Errorf("stopped: %w", interrupted(unix.SIGTERM)), 143},
		{&exec.Error{Name: "x", Err: exec.ErrNotFound}, 127},
		{&exec.Error{Name: "./x", Err: fs.ErrNotExist}, 127},
		{&exec.Error{Name: "/", Err: fs.ErrPermission}, 126},
	} {
		if got := exitCode(tt.err); got != tt.want {
			t.Errorf("exitCode(%v) = %d, want %d", tt.err, got, tt.want)
		}
	}
}

// TestHelp: every verb and every flag says what it is for.
func TestHelp(t *testing.T) {
	for _, cmd := range newRootCmd().Commands() {
		if cmd.Short == "" {
			t.Errorf("%s has no description", cmd.CommandPath())
		}
	}
}

// TestInterfaceFlag: every verb that opens a NIC is told its interface, driver and key
// alike.
func TestInterfaceFlag(t *testing.T) {
	for _, cmd := range newRootCmd().Commands() {
		flag := cmd.Flags().Lookup("iface")
		switch name := cmd.Name(); {
		case name == "info" || name == "doctor" || name == "perf" || name == "ping" || name == "daemon" || name == "run" || name == "node" || name == "tun" || name == "top":
			driver, key := cmd.Flags().Lookup("driver"), cmd.Flags().Lookup("key")
			if flag == nil || flag.Shorthand != "i" || driver == nil || key == nil {
				t.Errorf("%s has the flags %+v, %+v and %+v", name, flag, driver, key)
			}
		case name == "map" || name == "card": // they are cards: their driver is no choice
			if driver := cmd.Flags().Lookup("driver"); flag == nil || flag.Shorthand != "i" || driver != nil {
				t.Errorf("%s has the flags %+v and %+v", name, flag, driver)
			}
		case flag != nil:
			t.Errorf("%s has the flag --iface", name)
		}
	}
}
