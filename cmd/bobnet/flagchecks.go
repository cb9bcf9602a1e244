package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bobnet-go/bobnet/internal/userfile"
	"golang.org/x/sys/unix"
)

// input is a flag whose value is the path of a file that is read.
func input(to *string, checks ...func(text string) error) *setting[string] {
	s := text(to, "", append([]func(string) error{readable}, checks...)...)
	s.files = true
	return s
}

// output is a flag whose value is the path of a file that is written, or also - where that is
// the default.
func output(to *string, value string) *setting[string] {
	s := text(to, value, func(path string) error {
		if path == "-" && value == "-" {
			return nil
		}
		return writable(path)
	})
	s.files = true
	return s
}

// folder is a flag whose value is the path of a folder that is made if need be.
func folder(to *string, value string) *setting[string] {
	s := text(to, value, func(path string) error {
		info, err := os.Stat(path)
		if err == nil && !info.IsDir() {
			return errors.New("it is a file, want a folder")
		}
		if failed := (*fs.PathError)(nil); errors.As(err, &failed) && !errors.Is(err, fs.ErrNotExist) {
			return failed.Err
		}
		return nil
	})
	s.files = true
	return s
}

// readable refuses the path of what is no file, or that this process may not read.
func readable(path string) error {
	if err := unix.Access(path, unix.R_OK); err != nil {
		return err
	}
	f, err := userfile.Open(path)
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		return failed.Err
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// writable refuses the path of a file that cannot be made because there is a folder of that
// name, or none to have it, and that of a pipe that no process reads.
func writable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return errors.New("it is a folder, want a file")
	case err == nil && info.Mode()&fs.ModeNamedPipe != 0:
		err = userfile.Check(path)
		if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
			return failed.Err
		}
		return err
	}
	if dir := filepath.Dir(path); !isFolder(dir) {
		return fmt.Errorf("there is no folder %s", dir)
	}
	return nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// existing refuses what is no folder.
func existing(path string) error {
	if !isFolder(path) {
		return errors.New("there is no such folder")
	}
	return nil
}

// listenAt is a flag whose value is a TCP address to listen at, as metrics.Serve takes it.
func listenAt(to *string) *setting[string] {
	return text(to, "", func(text string) error {
		host, port, err := net.SplitHostPort(text)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil || strings.ContainsAny(host, " /") {
			return errors.New("want an address to listen at, such as :9464 or 10.0.0.1:9464")
		}
		return nil
	})
}

// address is a flag whose value is an IP address.
func address(to *netip.Addr) *setting[netip.Addr] {
	parse := func(text string) (netip.Addr, error) {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			return ip, errors.New("want an IP address such as 10.0.0.1 or fd00::1")
		}
		return ip, nil
	}
	return &setting[netip.Addr]{to: to, kind: "string", parse: parse, print: func(ip netip.Addr) string {
		if !ip.IsValid() {
			return ""
		}
		return ip.String()
	}}
}

// most refuses what is longer than n bytes.
func most(n int) func(text string) error {
	return func(text string) error {
		if len(text) > n {
			return fmt.Errorf("it has %d bytes, want at most %d", len(text), n)
		}
		return nil
	}
}

// maxSocket is the longest path of a Unix socket in bytes.
const maxSocket = len(unix.RawSockaddrUnix{}.Path) - 1

// bare removes the package name from the front of an error.
func bare(err error, prefix string) error {
	if err == nil {
		return nil
	}
	if text, cut := strings.CutPrefix(err.Error(), prefix); cut {
		return errors.New(text)
	}
	return err
}
