// Command fileserver serves the files below a directory by remote procedure calls, and copies such
// trees. Its service is defined in internal/files/files.x. bobnet rpcgen generates package files
// from it, and the C rpcgen generates the code for cclient/client.c. Any ONC RPC implementation can
// be a client.
//
//	go run ./examples/fileserver serve ./docs &      # at 127.0.0.1:7711; -write lets clients write
//	go run ./examples/fileserver hash                # reads all files; prints their number, bytes and a sum
//	go run ./examples/fileserver get . /tmp/docs     # copies the tree, and prints the same sum
//	go run ./examples/fileserver sum /tmp/docs       # prints the sum of a local directory
//	go run ./examples/fileserver put /tmp/docs copy  # copies it back, if the server allows writes
//
// With -vmmc NAME the server also answers over VMMC, and clients call over it. They need the same
// name instead of an address. They must be on the segment of BOBNET_IFACE (as root, or with
// cap_net_raw), or on the same host with BOBNET_DRIVER=shm:
//
//	export BOBNET_DRIVER=shm
//	go run ./examples/fileserver serve -vmmc docs ./docs &
//	go run ./examples/fileserver hash -vmmc docs
//
// The C client copies a tree like get:
//
//	cd examples/fileserver/cclient && make && ./client 127.0.0.1 7711 . /tmp/docs
//
// The server never leaves its directory, whatever path a client requests and wherever symbolic links
// lead. It does not authenticate clients: listen at an address that other hosts can reach only if
// all of them may read the files.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/bobnet-go/bobnet/examples/fileserver/internal/files"
	"github.com/bobnet-go/bobnet/internal/userfile"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/vrpc"
)

const defaultAddr = "127.0.0.1:7711"

func main() {
	log.SetFlags(0)
	log.SetPrefix("fileserver: ")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	stdout := userfile.Keep(os.Stdout)
	switch err := cmp.Or(run(ctx, os.Args[1:], stdout), stdout.Err()); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		log.Fatal(err)
	}
}

const does = `Fileserver serves the files below a directory by remote procedure calls (ONC RPC), over TCP
and over VMMC, and copies such trees.

`

const usage = `use: fileserver serve [-addr ADDR] [-vmmc NAME] [-write] DIR
     fileserver hash [-addr ADDR | -vmmc NAME] [PATH]
     fileserver get [-addr ADDR | -vmmc NAME] PATH DIR
     fileserver put [-addr ADDR | -vmmc NAME] DIR PATH
     fileserver sum DIR

To try it: fileserver serve . & fileserver hash`

// run executes the command line.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	if slices.Contains([]string{"-h", "-help", "--help", "help"}, args[0]) {
		fmt.Fprintln(out, does+usage)
		return nil
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	var at place
	flags.StringVar(&at.addr, "addr", defaultAddr, "the server's `ADDR`, host and port of TCP")
	flags.StringVar(&at.vmmc, "vmmc", "", "the `NAME` by which server and clients find each other over VMMC")
	write := flags.Bool("write", false, "serve: let clients write")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	rest := flags.Args()
	switch verb := args[0]; {
	case verb == "serve" && len(rest) == 1:
		return serve(ctx, at, rest[0], *write, out)
	case verb == "hash" && len(rest) <= 1:
		return transfer(ctx, at, append(rest, ".")[0], "", false, out)
	case verb == "get" && len(rest) == 2:
		return transfer(ctx, at, rest[0], rest[1], false, out)
	case verb == "put" && len(rest) == 2:
		return transfer(ctx, at, rest[1], rest[0], true, out)
	case verb == "sum" && len(rest) == 1:
		return sum(ctx, rest[0], out)
	}
	return errors.New(usage)
}

// serve answers calls until ctx ends.
func serve(ctx context.Context, at place, dir string, write bool, out io.Writer) error {
	s, addr, err := start(at, dir, write)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "serving %s at %v\n", dir, addr)
	<-ctx.Done()
	return s.Close()
}

// service is a running server.
type service struct {
	*server
	rpc *vrpc.Server
	p   *vmmc.Process // nil without VMMC
}

func (s *service) Close() error { return errors.Join(s.rpc.Close(), closeProcess(s.p), s.root.Close()) }

// start serves a directory over TCP, and also over VMMC if at requests it, until Close.
func start(at place, dir string, write bool) (*service, net.Addr, error) {
	files, err := newServer(dir, write)
	if err != nil {
		return nil, nil, err
	}
	s := &service{server: files, rpc: vrpc.NewServer(&vrpc.ServerConfig{Parallel: window})}
	err = s.register(s.rpc)
	if err == nil && at.vmmc != "" {
		s.p, err = at.listen(s.rpc)
	}
	var addr net.Addr
	if err == nil {
		addr, err = s.rpc.Listen("tcp", at.addr)
	}
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return s, addr, nil
}

// transfer copies between a server and a local directory. If dir is empty, it only reads.
func transfer(ctx context.Context, at place, path, dir string, put bool, out io.Writer) error {
	c, closeAll, err := at.dial(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	there := &remote{files.FileV1Client{Client: c}}
	var total *summary
	if dir == "" {
		total, err = walk(ctx, there, path, nil, "")
	} else {
		total, err = copyTree(ctx, there, path, dir, put)
	}
	if err == nil {
		fmt.Fprintln(out, total)
	}
	return err
}

func copyTree(ctx context.Context, there *remote, path, dir string, put bool) (*summary, error) {
	if !put {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if put {
		return walk(ctx, localDir{root}, ".", there, path)
	}
	return walk(ctx, there, path, localDir{root}, ".")
}

// sum prints the same line as hash, for a local directory.
func sum(ctx context.Context, dir string, out io.Writer) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	total, err := walk(ctx, localDir{root}, ".", nil, "")
	if err == nil {
		fmt.Fprintln(out, total)
	}
	return err
}
