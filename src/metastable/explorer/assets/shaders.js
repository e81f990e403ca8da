// Programs of the graphics card. Tokens of all times lie in one buffer; a frame only names two places in it.

const HEAD = `#version 300 es
precision highp float;
precision highp int;
uniform mat3 rows;      // right, up, towards the viewer
uniform vec4 fit;       // centre and half-width that fill the picture
uniform vec2 scale;     // from scene to clip coordinates
uniform vec2 shift;
uniform float unit;     // 1: tokens live on the unit sphere
vec3 place(vec3 p) {
  if (unit > 0.5) p /= max(length(p), 1e-9);
  return ((p - fit.xyz) / fit.w) * rows;
}
vec4 clip(vec3 q) { return vec4(q.xy * scale + shift, 0.0, 1.0); }
`;

export const POINTS = {
  vertex: `${HEAD}
layout(location = 0) in vec3 a;
layout(location = 1) in vec3 b;
layout(location = 2) in float code;
uniform float u, size, depth;
uniform int first, chosen;
out float vCode, vFar, vSize;
flat out int vId;
void main() {
  vec3 q = place(mix(a, b, u));
  vId = gl_VertexID;
  vCode = code;
  vFar = depth * clamp(0.5 - 0.5 * q.z, 0.0, 1.0);
  vSize = size * (1.0 - 0.35 * vFar) * ((gl_VertexID == 0 && first == 1) || gl_VertexID == chosen ? 1.35 : 1.0);
  gl_PointSize = vSize;
  gl_Position = clip(q);
}`,
  fragment: `#version 300 es
precision highp float;
precision highp int;
in float vCode, vFar, vSize;
flat in int vId;
uniform sampler2D palette;
uniform float row;
uniform int first, chosen;
uniform vec3 firstColour, paper, ink, rim;
out vec4 colour;
void main() {
  float r = 2.0 * length(gl_PointCoord - 0.5), soft = 2.5 / vSize;
  float alpha = 1.0 - smoothstep(1.0 - soft, 1.0, r);
  if (alpha <= 0.0) discard;
  vec3 c = texture(palette, vec2((vCode * 255.0 + 0.5) / 256.0, (row + 0.5) / 3.0)).rgb;
  if (vId == 0 && first == 1) c = firstColour;
  c = mix(c, paper, 0.62 * vFar);
  float edge = vSize > 7.0 ? smoothstep(0.74 - soft, 0.74 + soft, r) : 0.0;
  c = mix(c, vId == chosen ? ink : mix(rim, c, 0.15), edge);
  colour = vec4(c * alpha, alpha);
}`,
};

export const LINES = {
  vertex: `${HEAD}
layout(location = 0) in vec3 a;
layout(location = 1) in vec3 b;
layout(location = 2) in float code;
layout(location = 3) in vec4 given;
uniform float cut, width, row, alpha, depth, coded;
uniform vec2 pixels;
uniform sampler2D palette;
uniform vec3 firstColour;
uniform int first, corners; // corners of a line in the buffer; 0: lines are instances, strips of four
out vec4 vColour;
out float vAcross;
void main() {
  int line = corners > 0 ? gl_VertexID / corners : gl_InstanceID, corner = corners > 0 ? gl_VertexID % corners : gl_VertexID;
  if (corner > 3) corner = corner == 4 ? 2 : 1; // 0 1 2, 3 2 1
  vec3 p = place(a), q = place(mix(a, b, cut));
  vec2 from = clip(p).xy, to = clip(q).xy, way = (to - from) * pixels;
  float length2 = dot(way, way);
  vec2 across = length2 > 1e-9 ? vec2(-way.y, way.x) / sqrt(length2) : vec2(0.0, 1.0);
  float end = float(corner & 1), which = float(corner >> 1) * 2.0 - 1.0;
  vAcross = which;
  gl_Position = vec4(mix(from, to, end) + which * across * (width + 1.0) / pixels, 0.0, 1.0);
  float z = mix(p.z, q.z, end);
  float near = mix(1.0, mix(0.28, 1.0, smoothstep(-0.25, 0.25, z)), depth);
  vec3 c = texture(palette, vec2((code * 255.0 + 0.5) / 256.0, (row + 0.5) / 3.0)).rgb;
  if (line == 0 && first == 1) c = firstColour;
  vColour = coded > 0.5 ? vec4(c, alpha * near) : vec4(given.rgb, given.a * alpha * near);
}`,
  fragment: `#version 300 es
precision highp float;
precision highp int;
in vec4 vColour;
in float vAcross;
uniform float width;
out vec4 colour;
void main() {
  float away = 0.5 * abs(vAcross) * (width + 1.0); // pixels from the middle of the line
  float alpha = vColour.a * clamp(0.5 * width + 0.5 - away, 0.0, 1.0);
  colour = vec4(vColour.rgb * alpha, alpha);
}`,
};

/** A linked program and its uniforms by name. */
export function program(gl, { vertex, fragment }) {
  const made = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS) && !gl.isContextLost()) throw new Error(gl.getShaderInfoLog(shader));
    gl.attachShader(made, shader);
  }
  gl.linkProgram(made);
  if (!gl.getProgramParameter(made, gl.LINK_STATUS) && !gl.isContextLost()) throw new Error(gl.getProgramInfoLog(made));
  const at = {};
  const count = gl.getProgramParameter(made, gl.ACTIVE_UNIFORMS) || 0;
  for (let k = 0; k < count; k++) {
    const { name } = gl.getActiveUniform(made, k);
    at[name] = gl.getUniformLocation(made, name);
  }
  return { made, at };
}
