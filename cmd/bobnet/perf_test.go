package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/perf"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestPerfScripts(t *testing.T) {
	needLab(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/perf",
		Condition: func(cond string) (bool, error) {
			if cond == "full" { // testscript has a condition short of its own, which is -short
				return need.Full(), nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

func TestHeatScreen(t *testing.T) {
	var out strings.Builder
	s := &heatScreen{out: &out, bar: newProgress(io.Discard), ranks: 2}
	for _, part := range []string{ // lines come in pieces
		`{"Step":1,"Steps":20}`, "\n{\"Width\":8,\"Height\":4,\"Across\":2,\"Down\":1,\"Steps\":20,",
		"\"Elapsed\":3000000,\"Waited\":1000000}\n", "{\"Serial\":2000000}\n",
	} {
		if _, err := io.WriteString(s, part); err != nil {
			t.Fatal(err)
		}
	}
	want := "8x4 cells in 2x1 blocks: 20 steps in 3ms, of which rank 0 waited 1ms for its neighbours.\n" +
		"A serial run (2ms) gives the same, bit for bit: 2 ranks are 0.67 times as fast.\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	if _, err := io.WriteString(s, "panic: oh\n"); err == nil {
		t.Error("a line that is no event was accepted")
	}
}

func TestWatchFor(t *testing.T) {
	if watch, done, err := watchFor(""); watch == nil || err != nil { // for SIGQUIT
		t.Errorf("no address: %v", err)
	} else {
		done()
	}
	free, err := net.Listen("tcp", vethtest.Loopback(1)+":0") // where nobody else takes the port meanwhile
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	watch, done, err := watchFor(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	nic, err := vipl.Open(t.Context(), &vipl.Config{Link: sim.New(sim.Options{Seed: 1}).Station("a")})
	if err != nil {
		t.Fatal(err)
	}
	defer nic.Close()
	forget := watch(perf.Opened{NIC: nic})
	if text := page(t, addr); !strings.Contains(text, "bobnet_nic_") {
		t.Errorf("nothing of the NIC in\n%s", text)
	}
	forget()
	if text := page(t, addr); strings.Contains(text, "bobnet_nic_") {
		t.Error("the NIC is still watched")
	}
}

func page(t *testing.T, addr string) string {
	t.Helper()
	resp, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
