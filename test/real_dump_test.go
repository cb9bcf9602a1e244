package test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/mplite"
	"golang.org/x/sys/unix"
)

// TestDump: a job hangs, because rank 0 waits for what the test does not say.
// Asked over HTTP and by SIGQUIT to the lab, each rank tells what it waits for,
// and the job goes on as if nothing had been.
func TestDump(t *testing.T) {
	needLab(t)
	run := serveLab(t, "scraped")
	run.hear(t, run.serves)
	const waits = "receive    0     0    0"
	dump := awaitText(t, run.server+"/rank/1/debug/bobnet", waits)
	for _, want := range []string{"rank 1 of 2 in job", "for a message", "NIC bob0  ", "connected"} {
		if !strings.Contains(dump, want) {
			t.Errorf("no %q in the dump of rank 1:\n%s", want, dump)
		}
	}
	var form struct {
		Rank struct{ Receives []mplite.Operation }
		NICs []struct{ VIs []struct{ State string } }
	}
	if err := json.Unmarshal([]byte(get(t, run.server+"/rank/1/debug/bobnet?format=json")), &form); err != nil {
		t.Fatal(err)
	}
	if len(form.Rank.Receives) != 1 || form.Rank.Receives[0].Size != largeSize || len(form.NICs) != 1 || len(form.NICs[0].VIs) == 0 {
		t.Errorf("the JSON says %+v", form)
	}

	awaitText(t, run.server+"/rank/0/debug/bobnet", "NIC bob0")
	if err := unix.Kill(run.pid, unix.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	run.hear(t, func() bool {
		said := run.said.String()
		return strings.Contains(said, "[0] SIGQUIT again") && strings.Contains(said, "[1] SIGQUIT again")
	})
	for _, want := range []string{"[0] rank 0 of 2 in job", "[1]   " + waits} {
		if !strings.Contains(run.said.String(), want) {
			t.Errorf("no %q in what the ranks said when they got SIGQUIT:\n%s", want, &run.said)
		}
	}
	// A share of the messages has come, and more will.
	if _, err := run.stdin.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	awaitMatch(t, run.server+"/rank/1/debug/bobnet", busyLine)
	if _, err := run.stdin.Write(make([]byte, steps-1)); err != nil {
		t.Fatal(err)
	}
	run.hear(t, run.finished)
	run.end(t)
}

// busyLine is the line of a VI through which a large message has come: how long
// its peer has been silent, and its window are filled in, and its round-trip time if it is known.
var busyLine = func() *regexp.Regexp {
	const span, number = `[1-9][\dhmnµ.]*s`, `(?:0\.0*)?[1-9][\d.e+-]*`
	columns := []string{
		`(?m)^ `, `\d+`, `connected`, `\S+`, `\w+`, number + ` B`, span + `(?: \(\d+ probes?\))?`, // HEARD
		`\d+`, `\d+`, `\d+/\d+`, `\S+`, `\d+`, number /* WINDOW */, `\S+`, `(?:-|` + span + `)` /* RTT: unknown where each of the few frames was sent again */, `\d+`, `\d+`, `.*`, `1\.0 MB`, `.*$`,
	}
	return regexp.MustCompile(strings.Join(columns, ` +`))
}()

// awaitText asks again and again until the answer has word in it.
func awaitText(t *testing.T, url, word string) string {
	t.Helper()
	return awaitMatch(t, url, regexp.MustCompile(regexp.QuoteMeta(word)))
}

// awaitMatch is awaitText for what an expression matches.
func awaitMatch(t *testing.T, url string, want *regexp.Regexp) string {
	t.Helper()
	deadline := time.After(patience)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		text, status := "", 0
		if resp, err := http.Get(url); err == nil {
			text, status = body(t, resp), resp.StatusCode
		}
		if status == http.StatusOK && want.MatchString(text) {
			return text
		}
		select {
		case <-deadline:
			t.Fatalf("no %q within %v; status %d:\n%s", want, patience, status, text)
		case <-again.C:
		}
	}
}
