package directory

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/userfile"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
)

// DefaultEthers is the system's file of names of Ethernet addresses.
const DefaultEthers = "/etc/ethers"

// ethersMax is the maximum number of lines that are read from an ethers file.
const ethersMax = 1 << 16

// ether is a line of an ethers file.
type ether struct {
	mac  ethertype.MAC
	name string
}

// readEthers reads an ethers file; a missing file counts as empty.
func readEthers(path string) ([]ether, error) {
	if path == "" {
		path = DefaultEthers
	}
	f, err := userfile.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, code.Error("read ethers file", errEthers, "%v", err)
	}
	defer f.Close()
	list, err := parseEthers(f)
	if err != nil {
		err = code.Error("read ethers file", errEthers, "%s: %v", path, err)
	}
	return list, err
}

// parseEthers parses the format of ethers(5): each line has an address, blanks and a host name; "#"
// begins a comment. Bytes of an address may have one digit. Invalid lines are skipped, and the
// error describes the first of them.
func parseEthers(r io.Reader) (list []ether, err error) {
	s := bufio.NewScanner(r)
	for line := 1; s.Scan(); line++ {
		text, _, _ := strings.Cut(s.Text(), "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		e, bad := parseEther(fields)
		switch {
		case bad == nil && len(list) == ethersMax:
			return list, fmt.Errorf("line %d: more than %d names", line, ethersMax)
		case bad == nil:
			list = append(list, e)
		case err == nil:
			err = fmt.Errorf("line %d: %w", line, bad)
		}
	}
	if s.Err() != nil {
		return list, s.Err()
	}
	return list, err
}

func parseEther(fields []string) (ether, error) {
	if len(fields) != 2 {
		return ether{}, fmt.Errorf("%d fields, want an address and a name", len(fields))
	}
	parts := strings.Split(fields[0], ":")
	for i, o := range parts {
		if len(o) == 1 { // the format allows one digit, ParseMAC does not
			parts[i] = "0" + o
		}
	}
	mac, err := ethertype.ParseMAC(strings.Join(parts, ":"))
	switch {
	case err != nil:
		return ether{}, err
	case mac.IsGroup():
		return ether{}, fmt.Errorf("%v is not the address of one host", mac)
	case len(fields[1]) > MaxHostName:
		return ether{}, fmt.Errorf("a name of %d bytes, want at most %d", len(fields[1]), MaxHostName)
	}
	return ether{mac, fields[1]}, nil
}
