// Command http runs net/http over streams: a server, a client and a benchmark that compares it with
// TCP on the same interface.
//
//	go run ./cmd/bobnet lab -n 2 -- go run ./examples/http -n 2000
//
// Or by hand, on machines of one Ethernet segment (as root, or with cap_net_raw):
//
//	BOBNET_RANK=0 http &    # on one: the server
//	BOBNET_RANK=1 http      # on another: the client
//
// Rank 0 serves one handler at bobnet://http and, if the interface has an IP address, over TCP.
// Rank 1 sends it small bodies to echo, one call after another and eight at a time, first over
// streams and then over TCP, and prints the rates. Handler and client do not depend on the
// transport: only the listener and the dial function differ.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/internal/examples/beside"
	"github.com/bobnet-go/bobnet/internal/examples/program"
	"github.com/bobnet-go/bobnet/stream"
)

var (
	count = flag.Int("n", 20_000, "calls of each measurement")
	size  = flag.Int("size", 64, "bytes of a body")
)

var about = program.About{
	Name: "http",
	Does: `Http compares net/http over streams of Bobnet with the same over TCP on the same interface.
Rank 0 is the server, rank 1 the client.`,
	Ranks: 2,
	Args:  "-n 2000",
}

func main() { about.Main(checkFlags, run) }

// checkFlags validates the flags.
func checkFlags() error {
	if *count < 1 || *size < 1 || *size > 1<<20 {
		return fmt.Errorf("-n %d, -size %d: want at least one call, of 1..%d bytes", *count, *size, 1<<20)
	}
	return nil
}

func run(ctx context.Context) error {
	at, err := about.Find(2)
	if err != nil || at.Rank > 1 {
		return err
	}
	host, err := stream.Open(ctx, &stream.Config{Interface: os.Getenv("BOBNET_IFACE")})
	if err != nil {
		return err
	}
	defer host.Close()
	name := "http-" + at.Name
	if at.Rank == 1 {
		return client(ctx, host, name)
	}
	return server(ctx, host, name)
}

// server serves until a client reports that it has finished.
func server(ctx context.Context, host *stream.Host, name string) error {
	listeners, err := beside.Listen(ctx, host, name)
	if err != nil {
		return err
	}
	ctx, done := context.WithCancel(ctx)
	defer done()
	var served atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		io.Copy(w, r.Body)
	})
	mux.HandleFunc("GET /tcp", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, listeners.TCP()) })
	mux.HandleFunc("POST /bye", func(http.ResponseWriter, *http.Request) { done() })
	srv := &http.Server{Handler: mux}
	ended := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { ended <- srv.Serve(l) }()
	}
	<-ctx.Done()
	quit, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = srv.Shutdown(quit) // waits for calls in progress
	for range listeners {
		if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
	}
	fmt.Fprintf(program.Stdout, "server: echoed %d bodies\n", served.Load())
	return err
}

// client runs the benchmark, and reports to the server that it has finished.
func client(ctx context.Context, host *stream.Host, name string) error {
	if err := beside.Await(ctx, host, name); err != nil {
		return err
	}
	dialer := stream.Dialer{Host: host}
	over := newClient(dialer.DialContext)
	url := "http://" + name
	address, err := call(ctx, over, http.MethodGet, url+"/tcp", nil)
	if err != nil {
		return err
	}
	err = measure(ctx, over, url, "stream")
	if err == nil && len(address) > 0 {
		tcp := newClient(new(net.Dialer).DialContext)
		err = measure(ctx, tcp, "http://"+string(address), "tcp")
		tcp.CloseIdleConnections()
		if err == nil {
			fmt.Fprintln(program.Stdout, beside.WhyAlike)
		}
	}
	if err == nil {
		_, err = call(ctx, over, http.MethodPost, url+"/bye", nil)
	}
	over.CloseIdleConnections()
	return err
}

func newClient(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 8}}
}

// measure sends bodies to echo and checks the answers.
func measure(ctx context.Context, c *http.Client, url, over string) error {
	body := bytes.Repeat([]byte("bobnet "), *size/7+1)[:*size]
	return beside.Measure(over, *count, func() error {
		back, err := call(ctx, c, http.MethodPost, url+"/echo", body)
		if err == nil && !bytes.Equal(back, body) {
			err = fmt.Errorf("%d bytes came back that are not the %d that were sent", len(back), len(body))
		}
		return err
	})
}

// call makes a request and returns the body of its answer.
func call(ctx context.Context, c *http.Client, method, url string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	answer, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, answer.Status)
	}
	return io.ReadAll(answer.Body)
}
