// Package raytrace draws the Utah teapot on a chequered floor by ray tracing: in one process
// (Tracer.Serial), or divided among ranks over Split-C (Run), as in "Split-C for the New
// Millennium", which used the ray tracer pico-Ray.
//
// The teapot is Martin Newell's: 32 bicubic Bezier patches, which are divided into triangles with
// the normals of the curved surface. A hierarchy of boxes finds the first triangle that a ray
// meets. Light comes from a rectangular lamp and from the sky, so shadows have soft edges, and
// corners are darker. The glaze reflects more at flat angles. Each pixel is the mean of a grid of
// samples. Each sample has its own point of the lamp and its own direction to the sky.
//
// # In parallel
//
// All ranks build the scene. A counter at rank 0 distributes the tiles of the picture: an idle rank
// increments the counter atomically, draws the tile of that number, and stores its rows into the
// picture at rank 0. So slow ranks, and ranks with slow tiles, draw fewer tiles. A rank polls after
// each pixel that it draws, so that rank 0 answers requests for work quickly.
//
// The colour of a pixel, including its random numbers, depends only on the pixel, so the picture is
// the same for any number of ranks.
package raytrace
