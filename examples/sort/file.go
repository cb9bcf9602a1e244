package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/bobnet-go/bobnet/internal/userfile"
)

// isBinary reports whether a file holds integers of eight bytes each, in little-endian order. Other
// files hold text, with one integer per line.
func isBinary(name string) bool { return strings.HasSuffix(name, ".bin") }

func readFile(name string) ([]int64, error) {
	f, err := userfile.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	read := readText
	if isBinary(name) {
		read = readBinary
	}
	data, err := read(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return data, nil
}

func readText(r io.Reader) ([]int64, error) {
	var data []int64
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		v, err := strconv.ParseInt(strings.TrimSpace(lines.Text()), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("line %d: %q is not an integer of 64 bits", n, lines.Text())
		}
		data = append(data, v)
	}
	return data, lines.Err()
}

func readBinary(r io.Reader) ([]int64, error) {
	var data []int64
	var b [8]byte
	for {
		n, err := io.ReadFull(r, b[:])
		switch {
		case err == io.EOF:
			return data, nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return nil, fmt.Errorf("its length is not a multiple of 8: %d bytes follow the last integer", n)
		case err != nil:
			return nil, err
		}
		data = append(data, int64(binary.LittleEndian.Uint64(b[:])))
	}
}

// sink writes integers to a file, part by part.
type sink struct {
	file   *userfile.File
	w      *bufio.Writer
	binary bool
	line   []byte
}

func create(name string) (*sink, error) {
	f, err := userfile.Create(name)
	if err != nil {
		return nil, err
	}
	return &sink{file: f, w: bufio.NewWriterSize(f, 1<<20), binary: isBinary(name)}, nil
}

func (s *sink) write(data []int64) error {
	for _, v := range data {
		if s.binary {
			s.line = binary.LittleEndian.AppendUint64(s.line[:0], uint64(v))
		} else {
			s.line = append(strconv.AppendInt(s.line[:0], v, 10), '\n')
		}
		if _, err := s.w.Write(s.line); err != nil {
			return err
		}
	}
	return nil
}

func (s *sink) close() error { return errors.Join(s.w.Flush(), s.file.Close()) }

func writeFile(name string, data []int64) error {
	f, err := create(name)
	if err != nil {
		return err
	}
	return errors.Join(f.write(data), f.close())
}

// generate returns n random integers. A tenth of them are small, so that some are equal.
func generate(n int, seed uint64) []int64 {
	rng := rand.New(rand.NewPCG(seed, 0))
	data := make([]int64, n)
	for i := range data {
		data[i] = int64(rng.Uint64())
		if rng.IntN(10) == 0 {
			data[i] = int64(rng.IntN(100))
		}
	}
	return data
}
