package main

import (
	"io"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/pcap"
)

// capture opens the file of a --pcap flag and returns how links are wrapped for
// it; nil for no file. The file is closed after the links.
func capture(name string) (io.Closer, func(transport.Link) transport.Link, error) {
	if name == "" {
		return io.NopCloser(nil), nil, nil
	}
	file, err := pcap.Create(name)
	if err != nil {
		return nil, nil, err
	}
	return file, func(l transport.Link) transport.Link { return file.Wrap(l) }, nil
}
