// Command grpc runs gRPC over streams: a server, a client and a benchmark that compares it with TCP
// on the same interface.
//
//	go run ./cmd/bobnet lab -n 2 -- go run ./examples/grpc -n 2000
//
// Or by hand, on machines of one Ethernet segment (as root, or with cap_net_raw):
//
//	BOBNET_RANK=0 grpc &    # on one: the server
//	BOBNET_RANK=1 grpc      # on another: the client
//
// The service is gRPC's own for health checks (grpc.health.v1), whose code is part of its module.
// Its method List returns the server's address for TCP. Rank 1 makes unary calls, one after another
// and eight at a time, first over streams and then over TCP, and prints the rates. To run over
// streams, a program needs only another listener and another dial function.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/internal/examples/beside"
	"github.com/bobnet-go/bobnet/internal/examples/program"
	"github.com/bobnet-go/bobnet/stream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

var count = flag.Int("n", 20_000, "calls of each measurement")

var about = program.About{
	Name: "grpc",
	Does: `Grpc compares unary gRPC calls over streams of Bobnet with the same calls over TCP on the
same interface. Rank 0 is the server, rank 1 the client.`,
	Ranks: 2,
	Args:  "-n 2000",
}

func main() { about.Main(checkFlags, run) }

// checkFlags validates the flags.
func checkFlags() error {
	if *count < 1 {
		return fmt.Errorf("-n %d: want at least one call", *count)
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
	name := "grpc-" + at.Name
	if at.Rank == 1 {
		return client(ctx, host, name)
	}
	return server(ctx, host, name)
}

// service answers health checks for the server itself.
type service struct {
	grpc_health_v1.UnimplementedHealthServer
	tcp    string
	served atomic.Int64
	bye    context.CancelFunc
}

// Check is the method that the benchmark calls.
func (s *service) Check(_ context.Context, req *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if req.Service != "" {
		return nil, status.Error(codes.NotFound, "only the server itself is looked at")
	}
	s.served.Add(1)
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

// List returns the server's address for TCP as the name of a service.
func (s *service) List(context.Context, *grpc_health_v1.HealthListRequest) (*grpc_health_v1.HealthListResponse, error) {
	serving := &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}
	return &grpc_health_v1.HealthListResponse{Statuses: map[string]*grpc_health_v1.HealthCheckResponse{s.tcp: serving}}, nil
}

// Watch ends the service: the server stops when the client has finished watching.
func (s *service) Watch(_ *grpc_health_v1.HealthCheckRequest, out grpc_health_v1.Health_WatchServer) error {
	s.bye()
	return out.Send(&grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_NOT_SERVING})
}

// server serves until a client reports that it has finished.
func server(ctx context.Context, host *stream.Host, name string) error {
	listeners, err := beside.Listen(ctx, host, name)
	if err != nil {
		return err
	}
	ctx, done := context.WithCancel(ctx)
	defer done()
	s := &service{tcp: listeners.TCP(), bye: done}
	srv := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(srv, s)
	var group sync.WaitGroup
	errs := make([]error, len(listeners))
	for i, l := range listeners {
		group.Go(func() { errs[i] = srv.Serve(l) })
	}
	<-ctx.Done()
	srv.GracefulStop()
	group.Wait()
	fmt.Fprintf(program.Stdout, "server: answered %d checks\n", s.served.Load())
	return errors.Join(errs...)
}

// client runs the benchmark, and reports to the server that it has finished.
func client(ctx context.Context, host *stream.Host, name string) error {
	if err := beside.Await(ctx, host, name); err != nil {
		return err
	}
	dialer := stream.Dialer{Host: host}
	conn, err := dial("bobnet://"+name, func(ctx context.Context, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, stream.Network, address)
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	over := grpc_health_v1.NewHealthClient(conn)
	list, err := over.List(ctx, &grpc_health_v1.HealthListRequest{})
	if err == nil {
		err = measure(ctx, over, "stream")
	}
	for address := range list.GetStatuses() {
		if err == nil && strings.Contains(address, ":") {
			err = overTCP(ctx, address)
		}
	}
	if err != nil {
		return err
	}
	end, err := over.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	for err == nil {
		_, err = end.Recv()
	}
	if err == io.EOF {
		return nil
	}
	return err
}

func overTCP(ctx context.Context, address string) error {
	conn, err := dial(address, func(ctx context.Context, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := measure(ctx, grpc_health_v1.NewHealthClient(conn), "tcp"); err != nil {
		return err
	}
	fmt.Fprintln(program.Stdout, beside.WhyAlike)
	return nil
}

// dial returns a client for address, whose connections dial makes.
func dial(address string, dial func(ctx context.Context, address string) (net.Conn, error)) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address, grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
}

func measure(ctx context.Context, c grpc_health_v1.HealthClient, over string) error {
	return beside.Measure(over, *count, func() error {
		answer, err := c.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err == nil && answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			err = fmt.Errorf("the server says %v", answer.Status)
		}
		return err
	})
}
