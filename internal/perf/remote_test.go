package perf

import (
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestResolve: a text is an address, or a name, and if it is neither the error
// tells whether it is nearly an address.
func TestResolve(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1})
	link := w.Station("a")
	w.Go("a", func() {
		nic, err := vipl.Open(t.Context(), &vipl.Config{Link: link, Seed: 1})
		if err != nil {
			t.Error(err)
			return
		}
		defer nic.Close()
		if err := nic.Advertise("perf/a:b", nic.Addr()); err != nil {
			t.Error(err)
		}
		other := ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, 9}, Port: 7}
		for text, want := range map[string]ethertype.Addr{other.String(): other, "perf/a:b": nic.Addr()} {
			if got, err := Resolve(t.Context(), nic, text); got != want || err != nil {
				t.Errorf("%q: %v, %v, want %v", text, got, err, want)
			}
		}
		for text, words := range map[string]string{
			"02:00:00:00:00:09/99999": `port "99999" is not in 0..65535`,
			"02:00:00:00:00":          "want MAC/port",
			"perf/b":                  "",
		} {
			_, err := Resolve(t.Context(), nic, text)
			if err == nil || !strings.Contains(err.Error(), "name not found") || !strings.Contains(err.Error(), words) ||
				words == "" && strings.Contains(err.Error(), "address") {
				t.Errorf("%q: %v, want both that nobody has this name and %q", text, err, words)
			}
		}
	})
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
}
