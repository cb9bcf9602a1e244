package program

import (
	"os"
	"strings"
	"testing"
)

func TestLine(t *testing.T) {
	a := About{Name: "pingpong", Ranks: 2, Args: "-size 64"}
	for program, want := range map[string]string{
		"./pingpong":                    "bobnet lab -n 2 -- ./pingpong -size 64",
		"/tmp/go-build12/b001/exe/main": "go run ./cmd/bobnet lab -n 2 -- go run ./examples/pingpong -size 64",
	} {
		if got := a.line(program, a.Ranks); got != want {
			t.Errorf("%s: %q, want %q", program, got, want)
		}
	}
	if got := (About{Name: "fabric"}).line("./fabric", 0); got != "./fabric" {
		t.Errorf("without ranks: %q", got)
	}
}

// TestFind: a rank that is alone, or one of too few, learns at once how to start enough.
func TestFind(t *testing.T) {
	a := About{Name: "kv", Ranks: 4}
	for env, want := range map[string]string{
		"":                             "needs at least 2 ranks: ",
		"BOBNET_RANK=0 BOBNET_SIZE=1":  "needs at least 2 ranks: ",
		"BOBNET_RANK=1":                "",
		"BOBNET_RANK=2 BOBNET_SIZE=3":  "",
		"BOBNET_RANK=-1 BOBNET_SIZE=3": "BOBNET_RANK",
	} {
		for _, name := range []string{"BOBNET_RANK", "BOBNET_SIZE", "BOBNET_JOB"} {
			t.Setenv(name, "")
		}
		for _, set := range strings.Fields(env) {
			name, value, _ := strings.Cut(set, "=")
			t.Setenv(name, value)
		}
		_, err := a.Find(2)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", env, err, want)
		}
		if strings.HasPrefix(want, "needs") && err != nil && !strings.HasSuffix(err.Error(), "lab -n 4 -- "+os.Args[0]) && !strings.Contains(err.Error(), "go run ./examples/kv") {
			t.Errorf("%q: %v, want the line that starts it", env, err)
		}
	}
}
