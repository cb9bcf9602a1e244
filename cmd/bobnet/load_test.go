package main

import (
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	busy, cpus := parseStat([]byte("cpu  100 20 30 4000 5 6 7 50 9 0\ncpu0 1 2 3 4 5 6 7 8 9 0\ncpu1 1 2 3 4 5 6 7 8 9 0\nintr 1\nctxt 5\n"))
	if busy != 2*time.Second || cpus != 2 {
		t.Errorf("busy %v on %d processors, want 2s (user, nice, system, steal) on 2", busy, cpus)
	}
	for _, text := range []string{"", "cpu\n", "cpu 1 2 3\n", "\n\n", "cpu  x x x x x x x x\n"} {
		if busy, _ := parseStat([]byte(text)); busy != 0 {
			t.Errorf("%q: busy %v, want 0", text, busy)
		}
	}
}

func TestLoadReport(t *testing.T) {
	now := watchLoad()
	if now.cpus == 0 {
		t.Fatal("no processors in /proc/stat")
	}
	for _, tc := range []struct {
		name  string
		watch loadWatch
		want  string
	}{
		{"unreadable", loadWatch{}, ""},
		{"idle", loadWatch{start: now.start.Add(-time.Hour), busy: now.busy, own: now.own, cpus: now.cpus}, ""},
		{"own work", loadWatch{start: now.start.Add(-time.Hour), busy: now.busy - time.Hour, own: now.own - time.Hour, cpus: now.cpus}, ""},
		{"disturbed", loadWatch{start: now.start.Add(-time.Hour), busy: now.busy - time.Hour*time.Duration(now.cpus)/2, own: now.own, cpus: now.cpus},
			"Disturbed: other processes used 50 % of the processors"},
	} {
		var out strings.Builder
		tc.watch.report(&out)
		if got := out.String(); (got == "") != (tc.want == "") || !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
