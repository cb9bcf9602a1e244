package lanai_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/internal/vethtest"
)

// distance is a client in this process and a server in another one, at the ends of a cable.
type distance struct {
	name   string
	cards  []int // sides whose card another process serves
	client *party
	times  []time.Duration // of round trips
}

// trips measures so many round trips of 64 bytes.
func (e *distance) trips(b *testing.B, n int) {
	ctx := context.Background()
	data := make([]byte, 64)
	for range n {
		began := time.Now()
		e.client.got = e.client.got[:0]
		err := e.client.ep.RequestMedium(ctx, 0, hEcho, data)
		for err == nil && len(e.client.got) == 0 {
			_, err = e.client.b.WaitPoll(ctx)
		}
		if err != nil {
			b.Fatal(err)
		}
		e.times = append(e.times, time.Since(began))
	}
}

// BenchmarkServed measures round trips of 64 bytes between processes, in turns: between programs that have a card
// each, from a program on a card that another process serves, and between two of these.
func BenchmarkServed(b *testing.B) {
	all := []*distance{{name: "own"}, {name: "one", cards: []int{0}}, {name: "both", cards: []int{0, 1}}}
	for _, e := range all {
		veth := vethtest.New(b, 1500)
		for _, side := range e.cards {
			start(b, veth, side, "card")
		}
		start(b, veth, 1, "server")
		e.client = find(b, openVeth(b, veth, 0))
		e.trips(b, 1000)
		e.times = nil
	}
	for b.Loop() {
		for _, e := range all {
			e.trips(b, 200) // until all have got used to it
			e.times = e.times[:len(e.times)-200]
			e.trips(b, 1000)
		}
	}
	median := func(e *distance) float64 {
		slices.Sort(e.times)
		return float64(e.times[len(e.times)/2]) / 1e3
	}
	own := median(all[0])
	b.ReportMetric(own, "own-µs")
	for _, e := range all[1:] {
		b.ReportMetric(median(e), e.name+"-µs")
		b.ReportMetric(median(e)/own, e.name+"-times")
	}
	b.ReportMetric(0, "ns/op")
}

// flood has a party find the server, and ask it as often as it can from a line of its input to the next one. It
// prints how many answers have come meanwhile.
func (p *party) flood(ctx context.Context) error {
	name, err := p.n.Find(ctx, "child")
	if err == nil {
		err = p.ep.Map(0, name, tag)
	}
	if err != nil {
		return err
	}
	answers := 0
	p.ep.SetHandler(hBack, func(endpoint.Token, []uint32, []byte) { answers++ })
	if err := p.ep.Request(ctx, 0, hEcho, 1); err != nil {
		return err
	}
	if err := p.until("an answer", func() bool { return answers > 0 }); err != nil {
		return err
	}
	fmt.Println("ready")
	for in := bufio.NewReader(os.Stdin); ; {
		if _, err := in.ReadString('\n'); err != nil {
			return err
		}
		over := make(chan struct{})
		go func() {
			in.ReadString('\n')
			close(over)
		}()
		answers = 0
		if err := p.askUntil(over); err != nil {
			return err
		}
		fmt.Println(answers)
	}
}

// askUntil asks as often as it can.
func (p *party) askUntil(over chan struct{}) error {
	for {
		select {
		case <-over:
			return nil
		default:
		}
		var err error
		for err == nil {
			err = p.ep.RequestBulkAsync(0, hEcho, nil, 0)
		}
		if !errors.Is(err, endpoint.ErrInUse) {
			return err
		}
		if _, err := p.b.WaitPoll(context.Background()); err != nil {
			return err
		}
	}
}

// BenchmarkShares has four processes of one served card ask a server as often as they can, and tells how far the
// least and the most that one gets are from a quarter.
func BenchmarkShares(b *testing.B) {
	const clients, span = 4, time.Second
	veth := vethtest.New(b, 1500)
	start(b, veth, 0, "card")
	start(b, veth, 1, "server")
	var all []process
	for range clients {
		all = append(all, startChild(b, veth, 0, "client"))
	}
	var answers [clients]int
	for b.Loop() {
		for _, p := range all {
			fmt.Fprintln(p.in)
		}
		<-time.After(span)
		for _, p := range all {
			fmt.Fprintln(p.in)
		}
		for i, p := range all {
			var n int
			line, err := p.out.ReadString('\n')
			if err == nil {
				_, err = fmt.Sscan(strings.TrimSpace(line), &n)
			}
			if err != nil {
				b.Fatal(err)
			}
			answers[i] += n
		}
	}
	total := 0
	for _, n := range answers {
		total += n
	}
	b.ReportMetric(float64(slices.Min(answers[:]))*clients/float64(total), "least")
	b.ReportMetric(float64(slices.Max(answers[:]))*clients/float64(total), "most")
	b.ReportMetric(float64(total)/float64(b.N)/span.Seconds(), "answers/s")
	b.ReportMetric(0, "ns/op")
}
