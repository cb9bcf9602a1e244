package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of a source.
const (
	askFor     = 5 * time.Second
	maxAnswer  = 64 << 20 // bytes
	maxTargets = 4096     // of one list
)

// Sources reads metrics that programs serve, as metrics.Serve and bobnet lab do.
type Sources struct {
	urls   []source
	client http.Client
}

type source struct {
	url      *url.URL
	optional bool // no error if no program serves metrics there
}

// target is one address to read.
type target struct {
	url    string
	name   string // of the program, if no label contains it
	labels map[string]string
}

// NewSources returns sources for addresses of the form :PORT, HOST:PORT, or URLs. For a URL without
// a path, it reads the list of targets at /targets if there is one, and otherwise /metrics. At the
// addresses of optional, missing metrics are not an error.
func NewSources(addresses []string, optional ...string) (*Sources, error) {
	s := &Sources{client: http.Client{Timeout: askFor}}
	for i, a := range append(slices.Clone(addresses), optional...) {
		full := a
		if !strings.Contains(a, "://") {
			full = "http://" + a
		}
		u, err := url.Parse(full)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("invalid address of metrics %q: want :PORT, HOST:PORT or a URL such as http://localhost:9464/metrics", a)
		}
		if strings.HasPrefix(u.Host, ":") {
			u.Host = "localhost" + u.Host
		}
		s.urls = append(s.urls, source{u, i >= len(addresses)})
	}
	return s, nil
}

// Close closes the connections.
func (s *Sources) Close() { s.client.CloseIdleConnections() }

// ErrSilent is wrapped by an error of Take: a source has not answered.
var ErrSilent = errors.New("no answer")

// Take adds the metrics of all sources to a sample, and a note for each source that does not answer.
// The error names these sources. Optional sources count only if none of them answers.
func (s *Sources) Take(ctx context.Context, to *Sample) error {
	var refused, silent []string
	for _, u := range s.urls {
		targets, err := s.targets(ctx, u.url)
		switch {
		case u.optional && errors.Is(err, unix.ECONNREFUSED):
			refused = append(refused, u.url.Host)
		case err != nil:
			to.Notes = append(to.Notes, fmt.Sprintf("%s: %v", u.url, err))
			silent = append(silent, u.url.Host)
		default:
			if s.read(ctx, targets, to) == 0 && len(targets) > 0 {
				silent = append(silent, u.url.Host)
			}
		}
	}
	if len(refused) == len(s.urls) && len(refused) > 0 {
		to.Notes = append(to.Notes, fmt.Sprintf("no metrics served at %s", strings.Join(refused, " or ")))
		silent = refused
	}
	if len(silent) > 0 {
		return fmt.Errorf("%w from %s", ErrSilent, strings.Join(silent, ", "))
	}
	return nil
}

// read reads all targets concurrently, and returns the number that have answered.
func (s *Sources) read(ctx context.Context, targets []target, to *Sample) (answered int) {
	texts, errs := make([]string, len(targets)), make([]error, len(targets))
	turns := make(chan struct{}, 16)
	var wait sync.WaitGroup
	for i, t := range targets {
		wait.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			var b []byte
			b, _, errs[i] = s.get(ctx, t.url)
			texts[i] = string(b)
		})
	}
	wait.Wait()
	for i, t := range targets {
		if errs[i] == nil {
			errs[i] = to.Read(t.name, t.labels, strings.NewReader(texts[i]))
		}
		if errs[i] != nil {
			to.Notes = append(to.Notes, fmt.Sprintf("%s: %v", t.url, errs[i]))
			continue
		}
		answered++
	}
	return answered
}

// targets returns the targets of a source.
func (s *Sources) targets(ctx context.Context, u *url.URL) ([]target, error) {
	if u.Path != "" && u.Path != "/" && u.Path != "/targets" {
		return []target{{url: u.String(), name: u.Host}}, nil
	}
	list, code, err := s.get(ctx, u.JoinPath("/targets").String())
	switch {
	case code == http.StatusNotFound:
		return []target{{url: u.JoinPath("/metrics").String(), name: u.Host}}, nil
	case err != nil:
		return nil, err
	}
	return parseTargets(u.Scheme, list)
}

// parseTargets parses a list for Prometheus's http_sd_configs.
func parseTargets(scheme string, list []byte) (all []target, err error) {
	var groups []struct {
		Targets []string
		Labels  map[string]string
	}
	if err := json.Unmarshal(list, &groups); err != nil {
		return nil, fmt.Errorf("invalid list of targets: %w", err)
	}
	for _, g := range groups {
		path := g.Labels["__metrics_path__"]
		if path == "" {
			path = "/metrics"
		}
		for _, host := range g.Targets {
			if _, _, err := net.SplitHostPort(host); err != nil {
				return nil, fmt.Errorf("invalid list of targets: %.80q is not host:port", host)
			}
			if len(all) >= maxTargets {
				return nil, fmt.Errorf("invalid list of targets: more than %d", maxTargets)
			}
			all = append(all, target{url: (&url.URL{Scheme: scheme, Host: host, Path: path}).String(), name: host, labels: g.Labels})
		}
	}
	return all, nil
}

// get returns the response of an address.
func (s *Sources) get(ctx context.Context, address string) (text []byte, code int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	res, err := s.client.Do(req)
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		err = failed.Err // the caller adds the address
	}
	if err != nil {
		return nil, 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, res.StatusCode, fmt.Errorf("HTTP status %s", res.Status)
	}
	text, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = fmt.Errorf("response of more than %d bytes", maxAnswer)
	}
	return text, res.StatusCode, err
}
