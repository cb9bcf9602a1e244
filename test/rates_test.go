package test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// checkRate compares the rate over the time before at, which begins before
// anything was sent and ends after it, with what was sent. What Prometheus
// adds by extending the samples at both ends is bounded by their number.
func (p *prometheus) checkRate(ctx context.Context, expr string, at, want float64) error {
	raw, err := p.query(ctx, expr+"[5m]", at)
	if err != nil {
		return err
	}
	rate, err := p.query(ctx, fmt.Sprintf("rate(%s[5m])", expr), at)
	if err != nil {
		return err
	}
	if len(raw) != 1 || len(rate) != 1 {
		return fmt.Errorf("%s: %d series, %d rates, want one each", expr, len(raw), len(rate))
	}
	all := raw[0].Values
	if first, last := all[0].value, all[len(all)-1].value; first != 0 || last != want {
		return fmt.Errorf("%s grew from %v to %v, want from 0 to %v", expr, first, last, want)
	}
	const float = 1e-9
	got, most := rate[0].Value.value*window.Seconds(), want*(1+2.2/float64(len(all)-1))
	if got < want*(1-float) || got > most*(1+float) {
		return fmt.Errorf("rate(%s[5m]) makes %v in %v, want %v to %v", expr, got, window, want, most)
	}
	return nil
}

// checkPace compares the rate in the midst of the traffic, from the first scrape
// that showed a whole share to the first that showed all but one, with what was
// sent between them. The window begins a moment before the one sample and ends
// with the other, so that Prometheus has as good as nothing to extend.
func (p *prometheus) checkPace(ctx context.Context, expr string, want float64) error {
	raw, err := p.query(ctx, expr+"[5m]", 0)
	if err != nil {
		return err
	}
	if len(raw) != 1 {
		return fmt.Errorf("%s: %d series, want one", expr, len(raw))
	}
	first := map[float64]float64{} // when each value was seen first
	for _, s := range raw[0].Values {
		if _, seen := first[s.value]; !seen && s.value > 0 && s.value < want {
			first[s.value] = s.at
		}
	}
	begin, end := first[want/steps], first[want/steps*(steps-1)]
	if len(first) < steps-1 || begin == 0 || end <= begin {
		return fmt.Errorf("%s: between 0 and %v only %v were seen, and when", expr, want, first)
	}
	rate, err := p.query(ctx, fmt.Sprintf("rate(%s[%dms])", expr, int(math.Round((end-begin)*1000))+1), end)
	if err != nil {
		return err
	}
	if len(rate) != 1 {
		return fmt.Errorf("%s: %d rates in %v s, want one", expr, len(rate), end-begin)
	}
	const float = 1e-3
	if got, grown := rate[0].Value.value*(end-begin), want/steps*(steps-2); math.Abs(got-grown) > float*grown {
		return fmt.Errorf("rate(%s) makes %v in the %.3f s in which %v were sent", expr, got, end-begin, grown)
	}
	return nil
}

// TestCheckRate gives checkRate what a server might answer, right and wrong.
func TestCheckRate(t *testing.T) {
	const want = 300
	right := "0,0,100,300,300,300,300,300,300,300,300" // of which Prometheus makes up to want*(1+2.2/10)
	for _, c := range []struct {
		name, values string
		grown        float64 // what the rate makes in the window
		ok           bool
	}{
		{"Right", right, want, true},
		{"Extended", right, 365, true},
		{"TooSlow", right, 299, false},
		{"TooFast", right, 367, false},
		{"TooLittle", "0,0,100,299,299,299,299,299,299,299,299", want, false},
		{"TooMuch", "0,0,100,301,301,301,301,301,301,301,301", want, false},
		{"SomethingBefore", "1,1,100,300,300,300,300,300,300,300,300", want, false},
		{"NotThere", "", want, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := answering(t, c.values, c.grown/window.Seconds())
			if err := p.checkRate(t.Context(), "counter", 9, want); (err == nil) != c.ok {
				t.Error(err)
			}
		})
	}
}

// TestCheckPace gives checkPace what a server might answer, right and wrong.
func TestCheckPace(t *testing.T) {
	const want = 500
	right := "0,0,100,100,200,250,300,400,500,500" // a share came with sample 2, all but one with sample 7
	for _, c := range []struct {
		name, values string
		grown        float64 // what the rate makes in that time
		ok           bool
	}{
		{"Right", right, 300, true},
		{"TooSlow", right, 290, false},
		{"TooFast", right, 310, false},
		{"AtOnce", "0,0,500,500,500", 300, false},
		{"NoFirstShare", "0,120,200,300,400,500", 300, false},
		{"NoLastShare", "0,100,200,300,350,500", 300, false},
		{"FewBetween", "0,0,100,100,100,100,100,400,500,500", 300, false},
		{"NotThere", "", 300, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := answering(t, c.values, c.grown/5)
			if err := p.checkPace(t.Context(), "counter", want); (err == nil) != c.ok {
				t.Error(err)
			}
		})
	}
}

// answering is a server with one counter.
func answering(t *testing.T, values string, rate float64) *prometheus {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := fmt.Sprintf(`{"metric":{},"value":[9,"%v"]}`, rate)
		if !strings.HasPrefix(r.FormValue("query"), "rate(") {
			answer = `{"metric":{},"values":[` + samples(values) + `]}`
		}
		if values == "" {
			answer = ""
		}
		fmt.Fprintf(w, `{"status":"success","data":{"result":[%s]}}`, answer)
	}))
	t.Cleanup(server.Close)
	return &prometheus{url: server.URL}
}

// samples writes values as Prometheus does, one a second.
func samples(values string) string {
	var list []string
	for at, v := range strings.Split(values, ",") {
		list = append(list, fmt.Sprintf(`[%d,"%s"]`, at, v))
	}
	return strings.Join(list, ",")
}
