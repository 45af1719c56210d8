/** What the graphics card does for each point of the picture: it follows a ray through the volume, and adds up colours. */

import { FLOOR } from '../rays';
import { MOST } from '../texture';

export const VERTEX = `#version 300 es
in vec2 corner;
out vec2 point;
void main() {
  point = corner;
  gl_Position = vec4(corner, 0, 1);
}`;

/** Lengths are those of `rays.ts`. `range` has the ends of the window as the texture tells values. */
export const FRAGMENT = `#version 300 es
precision highp float;
precision highp sampler3D;
in vec2 point;
out vec4 colour;
uniform sampler3D volume;
uniform sampler2D colours;
uniform bool reversed, both, cut;
uniform vec3 right, up, into, box, corner3, voxel;
uniform vec2 range, shape;
uniform float reach, density, stride, light;

float at(vec3 place) {
  vec3 share = place / box + 0.5;
  return texture(volume, reversed ? share.zyx : share).r;
}

float level(float value) {
  return clamp((value - range.x) / (range.y - range.x), 0.0, 1.0);
}

float strength(float value) {
  float share = level(value);
  return both ? abs(2.0 * share - 1.0) : share;
}

void main() {
  vec3 from = (right * point.x * shape.x + up * point.y * shape.y) * reach - 2.0 * into;
  vec3 safe = mix(into, vec3(1e-6), lessThan(abs(into), vec3(1e-6)));
  vec3 one = (-0.5 * box - from) / safe, other = (0.5 * box - from) / safe;
  vec3 low = min(one, other), high = max(one, other);
  float begin = max(max(low.x, low.y), low.z), end = min(min(high.x, high.y), high.z);
  colour = vec4(0);
  if (begin >= end) return;
  // Each ray begins a little elsewhere: else one would see the steps as rings.
  begin += stride * fract(sin(dot(gl_FragCoord.xy, vec2(12.9898, 78.233))) * 43758.5453);
  for (float along = begin; along < end && colour.a < 0.98; along += stride) {
    vec3 place = from + along * into;
    if (cut && all(lessThan((place - corner3) * into, vec3(0)))) continue;
    float value = at(place);
    if (value < ${(-2 * MOST).toFixed(1)}) continue;
    float power = strength(value);
    float opacity = 1.0 - pow(1.0 - min(0.999, density * ((both ? ${FLOOR} : 0.0) + power * power)), 100.0 * stride);
    if (opacity < 0.002) continue;
    vec3 shade = texture(colours, vec2(level(value), 0.5)).rgb;
    if (light > 0.0) {
      vec3 slope = vec3(
        strength(at(place + vec3(voxel.x, 0, 0))) - strength(at(place - vec3(voxel.x, 0, 0))),
        strength(at(place + vec3(0, voxel.y, 0))) - strength(at(place - vec3(0, voxel.y, 0))),
        strength(at(place + vec3(0, 0, voxel.z))) - strength(at(place - vec3(0, 0, voxel.z))));
      float steep = length(slope);
      float facing = abs(dot(slope, normalize(into - 0.5 * up + 0.4 * right))) / max(steep, 1e-4);
      shade *= mix(1.0, 0.35 + 0.85 * facing, light * smoothstep(0.0, 0.15, steep));
    }
    colour += (1.0 - colour.a) * vec4(min(shade, 1.0) * opacity, opacity);
  }
}`;
