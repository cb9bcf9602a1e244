package test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// labFaults is a bad network.
var labFaults = []string{"--dup", "20%", "--reorder", "20%", "--corrupt", "20%", "--seed", "7"}

// TestLabFaults: on a lab that copies, delays and corrupts frames all messages of
// TestMetrics come, and once. Rank 1, which gets most frames, has dropped those
// that came twice or damaged, and the dump of it says so.
func TestLabFaults(t *testing.T) {
	needLab(t)
	run := serveLab(t, "metrics", labFaults...)
	run.hear(t, run.finished)
	for _, a := range run.ranks {
		scrape(t, fmt.Sprintf("%s/rank/%d/metrics", run.server, a.Rank), a)
	}
	text := get(t, run.server+"/rank/1/metrics")
	for _, of := range []string{"nic_receive_dropped_frames_total{.*duplicate", "nic_receive_dropped_frames_total{.*crc", "link_dropped_frames_total{.*fault",
		"vi_receive_dropped_frames_total{.*duplicate", "vi_receive_dropped_frames_total{.*crc"} {
		if !regexp.MustCompile("(?m)^bobnet_" + of + `.*} [1-9]`).MatchString(text) {
			t.Errorf("no more than 0 of %s in\n%s", of, regexp.MustCompile(".*_dropped_frames_total{.*").FindAllString(text, -1))
		}
	}
	dump := get(t, run.server+"/rank/1/debug/bobnet")
	for _, of := range []string{`^  dropped .*crc \d+.*, duplicate \d+`, `^  \d+ +connected .* crc \d+.*, duplicate \d+`} {
		if !regexp.MustCompile("(?m)" + of).MatchString(dump) {
			t.Errorf("no line %q in\n%s", of, dump)
		}
	}
	run.end(t)
}

// TestLabFaultsPingpong: an example does there what it does elsewhere.
func TestLabFaultsPingpong(t *testing.T) {
	needLab(t)
	dir := commands(t)
	args := append([]string{"lab"}, labFaults...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "bobnet"), append(args, "--", filepath.Join(dir, "pingpong"), "-n", "100")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	checkPingpong(t, "", string(out))
}
